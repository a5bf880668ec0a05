"""Writes how old the records of a page or of a table are."""

from __future__ import annotations

from functools import cache

from docpages.marks import DocumentError, Parts
from recordage.record_rows import ROWS
from recordage.record_state import ABSENT, FRESH, RecordState, state_of

INDEX = "docs/evidence/index.md"


def part_of(page: str) -> Parts:
    """The part of a page of evidence with a line for each of its records; of the first page, for every record."""
    files = [row.file for row in ROWS if page == INDEX or page in row.pages]
    if not files or not page.startswith("docs/evidence/"):
        return {}
    return {"age of records": lambda: "\n".join(f"- `{file}`: {_states()[file].age}" for file in files)}


def older_said(*files: str) -> str:
    """A sentence on the records of a table."""
    older = sum(_states()[file].state != FRESH for file in files)
    return f"{older or 'None'} of its {len(files)} records measured other code than today's."


@cache
def _states() -> dict[str, RecordState]:
    """All states by file. Raises DocumentError in a checkout without the history that older records need."""
    states = {row.file: state_of(row) for row in ROWS}
    for file, state in states.items():
        if state.since == ABSENT:
            raise DocumentError(f"{file} names {state.commit}, {ABSENT}: git fetch --unshallow brings it")
    return states
