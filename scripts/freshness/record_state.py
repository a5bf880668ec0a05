"""Tells which records are as old as the code that they measure, and what changed since in the others."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from freshness.record_rows import BENCHMARKS, ROWS, RecordRow
from freshness.sources import ROOT, git, hashes, tree_at, tree_here

FRESH, STALE, MISSING, UNSHOWN = "fresh", "stale", "missing", "shown by no page"
ABSENT = "which this checkout does not have"


@dataclass(frozen=True)
class RecordState:
    """The state of a record. commit, date: as the record names them, or "".

    since: what makes it stale, as an end of a sentence. paths: the sources that changed, where the checkout has the commit.
    """

    file: str
    state: str
    commit: str = ""
    date: str = ""
    since: str = ""
    paths: tuple[str, ...] = ()

    @property
    def age(self) -> str:
        """When the record was made and what changed since, in a line; "" without a record or a row."""
        if self.state in (MISSING, UNSHOWN):
            return ""
        made = f"measured at {self.commit[:7]}" if self.commit else "names no commit"
        return "; ".join(filter(None, (", ".join(filter(None, (made, self.date))), self.since)))

    @property
    def commits(self) -> int:
        """How many commits since then changed its sources."""
        asked = ("rev-list", "--count", f"{self.commit}..HEAD", "--", *self.paths)
        return int(git(ROOT, *asked) or 0) if self.paths else 0


def states(rows: Sequence[RecordRow] = ROWS, root: Path = ROOT) -> list[RecordState]:
    """The states of the table's records, and of files in benchmarks/ that it does not list if all are asked about."""
    found = [state_of(row, root) for row in rows]
    if rows is ROWS:
        listed = {row.file for row in rows}
        folder = root / BENCHMARKS.name
        files = (path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*.json")))
        found += [RecordState(file, UNSHOWN) for file in files if file not in listed]
    return found


def state_of(row: RecordRow, root: Path = ROOT) -> RecordState:
    """Compares the sources of a record with those in `root`: at the commit that it names, or else by the hashes in it."""
    path = root / os.path.relpath(row.path, ROOT)
    if not path.is_file():
        return RecordState(row.file, MISSING)
    record = json.loads(path.read_text(encoding="utf-8"))
    named = re.fullmatch(r"([0-9a-f]{7,40})( with changes)?", str(record.get("commit", "")))
    commit, changes = named.groups() if named else ("", "")
    date = str(record.get("date") or record.get("machine", {}).get("date", ""))[:10]
    tree, here = (tree_at(commit, root) if commit and not changes else None), tree_here(root)
    paths: tuple[str, ...] = ()
    if tree is not None:
        by_part = {part.name: part.differences(tree, here, root) for part in row.rests_on}
        changed = [f"the {name}" for name, found in by_part.items() if found]
        paths = tuple(path for found in by_part.values() for path in found)
    elif "rests_on" in record:
        now = hashes(row.rests_on, here, root)
        changed = [f"the {name}" for name, value in now.items() if record["rests_on"].get(name) != value]
    else:
        why = "with changes that no commit has" if changes else ABSENT
        return RecordState(row.file, STALE, commit, date, why if commit else "")
    if changed:
        since = f"since then {' and '.join(filter(None, (', '.join(changed[:-1]), changed[-1])))} changed"
    else:
        since = f"rows that were not measured: {record['left']}" if record.get("left") else ""
    return RecordState(row.file, STALE if since else FRESH, commit, date, since, paths)
