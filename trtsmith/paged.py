"""Calls of the public API that were asked for a page (`html=`): it is written when they have ended, whichever way."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from trtsmith.converter.bench.subject import BenchOptions
from trtsmith.converter.convert import reports
from trtsmith.converter.convert.pipeline import Conversion, ConvertOptions
from trtsmith.converter.locate.found import Located
from trtsmith.converter.locate.prepare import Asked, PreparedSearch
from trtsmith.converter.model.errors import TrtsmithError
from trtsmith.converter.verify.verdict import Verdict
from trtsmith.converter.verify.verify_bundle import VerifiedBundle, VerifyOptions
from trtsmith.options import StrPath

Content = Callable[[ModuleType], Any]
"""Of trtsmith.converter.pages.contents, what is on the page."""


def conversion(html: StrPath | None, options: ConvertOptions, call: Callable[[], Conversion]) -> Conversion:
    """What the call gives back. UsageError, before it is made, if the page cannot be written."""
    write = _page(html, options.model, options.output, options.timing_cache, *options.plugins)
    try:
        done = call()
    except TrtsmithError as error:
        failed = reports.failure_report("convert", error)
        with suppress(
            Exception
        ):  # what kept the model from being converted comes first, whatever becomes of its page
            write(lambda pages: pages.of_conversion((), options, failed, None))
        raise
    write(lambda pages: pages.of_conversion((), options, reports.conversion_report(options, done), done))
    return done


def verdict(html: StrPath | None, options: VerifyOptions, call: Callable[[], VerifiedBundle]) -> Verdict:
    """The verdict that the call gives, likewise."""
    write = _page(html, *options.files())
    found = call()
    report = reports.verify_report(options, found.verdict)
    write(lambda pages: pages.of_verification((), options, report, found.frozen))
    return found.verdict


def search(
    html: StrPath | None, options: Asked, call: Callable[[Callable[[PreparedSearch], None]], Located]
) -> Located:
    """What the call finds, likewise. It gets a function for what was prepared."""
    write = _page(html, options.model, options.engine)
    prepared: list[PreparedSearch] = []
    found = call(prepared.append)
    write(lambda pages: pages.of_search((), options.model, options.engine, prepared[0], found.to_json()))
    return found


def timing(html: StrPath | None, options: BenchOptions, call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The record that the call makes, likewise."""
    write = _page(html, options.target)
    record = call()
    write(lambda pages: pages.of_timing((), options, record))
    return record


def _page(html: StrPath | None, *others: object) -> Callable[[Content], None]:
    """Writes a page once its content is known; nothing without a file for it. UsageError if it cannot be written."""
    if html is None:
        return _nothing
    from trtsmith.converter.pages import contents  # takes what verifies, searches and times
    from trtsmith.converter.pages.writing import PageFiles

    files = PageFiles(Path(html))
    files.check(others)
    return lambda content: files.write(lambda: content(contents))


def _nothing(content: Content) -> None:
    del content
