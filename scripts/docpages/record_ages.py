"""Writes how old the records of a page or of a table are."""

from __future__ import annotations

from functools import cache

from docpages.marks import DocumentError, Parts
from freshness.record_rows import ROWS
from freshness.record_state import ABSENT, FRESH, RecordState, state_of

INDEX = "docs/evidence/index.md"


def part_of(page: str) -> Parts:
    """The part of a page of evidence with a line for each of its records; of the first page, for every record."""
    files = [row.file for row in ROWS if page == INDEX or page in row.pages]
    if not files or not page.startswith("docs/evidence/"):
        return {}
    return {"age of records": lambda: "\n".join(f"- `{file}`: {_states()[file].age}" for file in files)}


def older_said(*files: str) -> str:
    """A sentence on the age of a table's records."""
    older = [state for file in files if (state := _states()[file]).state != FRESH]
    if not older:
        return "All of it was measured on this code."
    days = sorted(filter(None, (state.date for state in older)))
    if not days:
        return "Its records name no date; the code has changed since."
    when = f"from {days[0]} to {days[-1]}" if days[0] != days[-1] else f"on {days[0]}"
    undated = ", ".join(f"`benchmarks/{state.file}`" for state in older if not state.date)
    also = f" When {undated} was measured is not known." if undated else ""
    return f"Measured {when}; the code has changed since.{also}"


@cache
def _states() -> dict[str, RecordState]:
    """All states by file. Raises DocumentError in a checkout without the history that older records need."""
    states = {row.file: state_of(row) for row in ROWS}
    for file, state in states.items():
        if state.since == ABSENT:
            raise DocumentError(f"{file} names {state.commit}, {ABSENT}: git fetch --unshallow brings it")
    return states
