"""Writes the three files that show what came of a batch: results.json, junit.xml and index.html."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from trtsmith.converter.batch.results.document import RESULTS, document_text, results_document
from trtsmith.converter.batch.results.index_page import INDEX, index_page
from trtsmith.converter.batch.results.junit import JUNIT, junit_text
from trtsmith.converter.batch.results.task_row import RUN, task_row
from trtsmith.converter.batch.task_record import TaskRecord
from trtsmith.converter.model.output_file import write_whole

_NOWHERE: Mapping[str, str] = {}


def write_results(
    folder: Path,
    records: Iterable[TaskRecord],
    *,
    sources: Mapping[str, str] = _NOWHERE,
    title: str = "",
    planned: int | None = None,
    wall_s: float | None = None,
) -> None:
    """Write the files for these records into the folder, each whole or not at all; the folder is there already.

    It may be called as often as the batch goes on: for 1,000 records it takes a fraction of a second.

    records: are gone through once; each may be forgotten as soon as the next is asked for.
    sources: by a task's name one of trtsmith.converter.batch.results.task_row.SOURCES; "run" where none is given.
    title, planned, wall_s: as for results_document.

    OSError where a file cannot be written.
    """
    rows = [task_row(record, sources.get(record.name, RUN)) for record in records]
    write_rows(folder, rows, title=title, planned=planned, wall_s=wall_s)


def write_rows(
    folder: Path,
    rows: Iterable[Mapping[str, Any]],
    *,
    title: str = "",
    planned: int | None = None,
    wall_s: float | None = None,
) -> None:
    """The same from entries (task_row), for a driver that keeps these instead of the records, which are much larger."""
    document = results_document(rows, title=title, planned=planned, wall_s=wall_s)
    for name, text in (
        (RESULTS, document_text(document)),
        (JUNIT, junit_text(document)),
        (INDEX, index_page(document)),
    ):
        write_whole(folder / name, text)
