"""Writes the files of a call when it ends or fails: a report, a page, overlays for Model Explorer."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from trtsmith.arguments import unheard
from trtsmith.converter.base.errors import TrtsmithError
from trtsmith.converter.base.output_file import check_report, write_report, write_text
from trtsmith.converter.base.progress import Progress
from trtsmith.converter.convert import reports
from trtsmith.converter.convert.opening import name_of
from trtsmith.converter.engine.bundle.bundle import manifest_path

if TYPE_CHECKING:  # whoever wants no page does not wait for what makes one
    from trtsmith.converter.bench.subject import BenchOptions
    from trtsmith.converter.convert.conversion import Conversion
    from trtsmith.converter.convert.conversion_options import ConvertOptions
    from trtsmith.converter.locate.found import Located
    from trtsmith.converter.locate.prepare import LocateOptions, PreparedSearch
    from trtsmith.converter.pages.conversion_document import PageContent
    from trtsmith.converter.tune.tune import Tuned, TuneOptions
    from trtsmith.converter.verify.verify_bundle import VerifiedBundle, VerifyOptions

Content = Callable[[ModuleType], "PageContent"]
"""Of trtsmith.converter.pages.contents, what is on the page."""


@dataclass(frozen=True)
class WrittenFiles:
    """The files to write. flag: that of the report. words: the command line. step, warn: get its progress and warnings.

    force: whether they replace files that are none of trtsmith's.
    """

    html: Path | None = None
    overlays: Path | None = None
    report: Path | None = None
    flag: str = "--report"
    words: Sequence[str] = ()
    step: Progress = unheard
    warn: Progress = unheard
    force: bool = False

    @staticmethod
    def of_command(
        options: Namespace, step: Progress, warn: Progress, flag: str = "--report"
    ) -> WrittenFiles:
        report = getattr(options, flag[2:])
        words = ("trtsmith", *getattr(options, "words", ()))
        pages = options.html, options.model_explorer
        return WrittenFiles(*pages, report, flag, words, step, warn, options.force)

    def check(self, others: Iterable[object]) -> None:
        """Raises UsageError for files that cannot be written, or would replace one of the other paths."""
        others = tuple(others)
        check_report(self.report, others, self.flag, force=self.force)
        if self.html is not None or self.overlays is not None:
            from trtsmith.converter.pages.writing import PageFiles

            PageFiles(self.html, self.overlays).check((*others, self.report), force=self.force)

    def write(self, report: dict[str, Any], content: Content) -> None:
        write_report(self.report, report, self.flag)
        if self.html is not None or self.overlays is not None:
            from trtsmith.converter.pages import contents  # brings what verifies, searches and times
            from trtsmith.converter.pages.writing import PageFiles

            self.step("writing the page")
            PageFiles(self.html, self.overlays).write(lambda: content(contents))

    @contextmanager
    def failure(
        self, kind: str, content: Callable[[ModuleType, dict[str, Any]], PageContent]
    ) -> Iterator[None]:
        """Writes the problems if the block fails. A failure of the page must not hide them."""
        try:
            yield
        except TrtsmithError as error:
            failed = reports.failure_report(kind, error)
            write_report(self.report, failed, self.flag)
            try:
                replace(self, report=None).write({}, lambda pages: content(pages, failed))
            except Exception as wrong:  # an error of ours, too
                said = str(wrong).splitlines()[0] if str(wrong) else repr(wrong)
                self.warn(f"warning: the page was not written: {said}")
            raise

    def failed_verification(self, model: object) -> AbstractContextManager[None]:
        return self.failure(
            "verify", lambda pages, failed: pages.of_problems("verify", self.words, model, failed)
        )


@contextmanager
def converting(files: WrittenFiles, asked: ConvertOptions) -> Iterator[None]:
    """Checks first that the files can be written; if the block fails, writes its problems. Raises UsageError."""
    manifest = None if asked.output is None else manifest_path(asked.output)
    given = (asked.model, asked.output, manifest, asked.inputs, asked.expected)
    files.check((*given, asked.timing_cache, *asked.plugins))
    with files.failure(
        "convert", lambda pages, failed: pages.of_conversion(files.words, asked, failed, None)
    ):
        yield


def write_conversion(files: WrittenFiles, asked: ConvertOptions, done: Conversion) -> None:
    report = reports.conversion_report(asked, done)
    files.write(report, lambda pages: pages.of_conversion(files.words, asked, report, done))


@contextmanager
def verifying(files: WrittenFiles, asked: VerifyOptions) -> Iterator[None]:
    """As `converting`."""
    files.check((*asked.files(), asked.save_inputs, asked.save_outputs))
    with files.failed_verification(asked.model):
        yield


def write_verification(
    files: WrittenFiles,
    asked: VerifyOptions,
    compared: VerifiedBundle,
    ready: PreparedSearch | None = None,
    found: Located | None = None,
) -> None:
    """ready, found: of the search for the wrong node, as far as it came."""
    located = None if found is None else found.to_json()
    report = reports.verify_report(asked, compared.verdict) | {"located": located}
    files.write(
        report,
        lambda pages: pages.of_verification(files.words, asked, report, compared.frozen, ready, located),
    )


def check_search(files: WrittenFiles, asked: LocateOptions) -> None:
    """UsageError for files that cannot be written, or would replace others."""
    manifest = None if asked.engine is None else manifest_path(asked.engine)
    files.check((asked.model, asked.engine, manifest, asked.inputs, *asked.plugins))


def write_search(files: WrittenFiles, asked: LocateOptions, ready: PreparedSearch, found: Located) -> None:
    document = found.to_json()
    files.write(
        document, lambda pages: pages.of_search(files.words, asked.model, asked.engine, ready, document)
    )


def check_timing(files: WrittenFiles, asked: BenchOptions) -> None:
    """UsageError for files that cannot be written, or would replace others."""
    files.check((asked.target, manifest_path(asked.target), asked.inputs, *asked.plugins))


def write_timing(files: WrittenFiles, asked: BenchOptions, record: dict[str, Any]) -> None:
    files.write(record, lambda pages: pages.of_timing(files.words, asked, record))


def tuning(html: Path | None, asked: TuneOptions, call: Callable[[], Tuned]) -> Tuned:
    """Searches by the call, and writes the page. UsageError, before the call, if it cannot be written."""
    from trtsmith.converter.pages.tuned_page import tuned_page
    from trtsmith.converter.pages.writing import PageFiles

    convert = asked.convert
    others = (convert.model, convert.output, convert.inputs, convert.expected)
    PageFiles(html).check(others, force=convert.force)
    done = call()
    if html is not None:
        write_text(html, tuned_page(name_of(convert.model), done.to_json()), "--html", "the page")
    return done
