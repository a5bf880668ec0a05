"""The options --html and --model-explorer, of every command that has something to show."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from trtsmith.converter.cli.console import Console

if TYPE_CHECKING:  # whoever wants no page does not wait for what makes one
    from trtsmith.converter.pages.conversion_document import PageContent

Content = Callable[[Any, tuple[str, ...]], "PageContent"]


def check_page(options: argparse.Namespace, others: Iterable[object]) -> None:
    """UsageError for files that cannot be written, or would replace one of the others that are paths."""
    if options.html is not None or options.model_explorer is not None:
        from trtsmith.converter.pages.writing import PageFiles

        PageFiles(options.html, options.model_explorer).check((*others, getattr(options, "report", None)))


def write_page_of_failure(options: argparse.Namespace, console: Console, content: Content) -> None:
    """The same for a command that could not do what was asked: nothing about its page may hide what it has to say."""
    try:
        write_page(options, console, content)
    except Exception as error:  # an error of ours, too
        console.say(
            f"warning: the page was not written: {str(error).splitlines()[0] if str(error) else error!r}"
        )


def write_page(options: argparse.Namespace, console: Console, content: Content) -> None:
    """content: asked, if anything is to be written, with trtsmith.converter.pages.contents and the command line."""
    if options.html is not None or options.model_explorer is not None:
        from trtsmith.converter.pages import contents  # brings what verifies, searches and times
        from trtsmith.converter.pages.writing import PageFiles

        console.progress("writing the page")
        words = ("trtsmith", *getattr(options, "words", ()))
        PageFiles(options.html, options.model_explorer).write(lambda: content(contents, words))
