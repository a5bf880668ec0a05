"""Writes the report page of a conversion (--html) and its overlays for Model Explorer (--model-explorer)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from trtsmith.converter.model.output_file import check_report, write_text
from trtsmith.converter.pages.conversion_document import PageContent, conversion_document
from trtsmith.converter.pages.conversion_page import conversion_page
from trtsmith.converter.pages.model_explorer import check_overlays, write_overlays


@dataclass(frozen=True)
class PageFiles:
    """What is to be written, if anything. html: a file. overlays: a folder for Model Explorer's node data."""

    html: Path | None = None
    overlays: Path | None = None

    def check(self, others: Iterable[object] = ()) -> None:
        """UsageError for what cannot be written, or would replace one of the others that are paths; before any work."""
        check_report(self.html, others, "--html", "the page")
        check_overlays(self.overlays)

    def write(self, content: Callable[[], PageContent]) -> None:
        """Ask for the content if anything is to be written, and write it."""
        if self.html is None and self.overlays is None:
            return
        known = content()
        if self.html is not None:
            write_text(self.html, conversion_page(conversion_document(known)), "--html", "the page")
        if self.overlays is not None:
            write_overlays(self.overlays, known)
