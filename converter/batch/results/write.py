"""Writes the three files that show what came of a batch: results.json, junit.xml and index.html."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from trtsmith.converter.batch.results.document import RESULTS, document_text, results_document
from trtsmith.converter.batch.results.index_page import INDEX, index_page
from trtsmith.converter.batch.results.junit import JUNIT, junit_text
from trtsmith.converter.model.output_file import write_whole


def write_rows(
    folder: Path,
    rows: Iterable[Mapping[str, Any]],
    *,
    title: str = "",
    planned: int | None = None,
    wall_s: float | None = None,
) -> None:
    """Write the files for these entries (task_row) into the folder, each whole or not at all; the folder is there already.

    It may be called as often as the batch goes on: for 1,000 entries it takes a fraction of a second. A driver keeps these
    instead of the records, which are much larger.

    title, planned, wall_s: as for results_document.

    OSError where a file cannot be written.
    """
    document = results_document(rows, title=title, planned=planned, wall_s=wall_s)
    for name, text in (
        (RESULTS, document_text(document)),
        (JUNIT, junit_text(document)),
        (INDEX, index_page(document)),
    ):
        write_whole(folder / name, text)
