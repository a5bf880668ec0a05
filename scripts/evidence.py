#!/usr/bin/env python3
"""Tells which records in benchmarks/ are as old as the code that they measure, and makes those of a GPU anew.

    python scripts/evidence.py --status                   # exit code 1 unless every record is fresh
    python scripts/evidence.py --status --readme          # of those alone that README.md shows
    python scripts/evidence.py --plan --bundle FOLDER     # what a GPU would run, and the size of what is packed in FOLDER
    python3 scripts/evidence.py --gpu --bundle DIR --commit HASH --seconds 1500     # there

A record is stale if the sources on which its figures depend are not those of the commit that it names, or of the hashes
in it; scripts/freshness/record_rows.py says which these are. --gpu needs no git: it takes the records of this GPU that are
not fresh, those that are worth most first, each in a process of its own that has nine minutes at most and, where its
script can, goes on from where the last one stopped; those without times run side by side. --bundle: what
scripts/gpu_bundle.py unpacked, with the folders that --plan names beside it.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from freshness.record_rows import NEEDS, README, ROWS, RecordRow  # noqa: E402
from freshness.record_state import FRESH, state_of, states  # noqa: E402
from freshness.sources import hashes, tree_here  # noqa: E402
from harness.processes import Clock, run_boxed  # noqa: E402
from harness.run_record import add_seconds, script_parser, use_bundle  # noqa: E402
from trtsmith.converter.base.output_file import write_report  # noqa: E402
from trtsmith.converter.plugin.machine import describe, slug  # noqa: E402
from trtsmith.importers.counted import counted  # noqa: E402

STEP_S = 540.0
"""Of one process: callers often give a command ten minutes."""
END_S = 20.0
"""A script is told to end so much earlier, to write what it has."""
AT_ONCE = 2
"""Records without times that are made side by side. Of four on 16 cores 21 jobs were over their own limits of time."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = script_parser(__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--status", action="store_true", help="say how old each record is")
    what.add_argument("--plan", action="store_true", help="say what a GPU would run, and how long")
    what.add_argument("--gpu", action="store_true", help="run that on the GPU of this machine")
    parser.add_argument("--readme", action="store_true", help="only records that README.md shows")
    parser.add_argument("--json", action="store_true", help="print the states as JSON")
    parser.add_argument(
        "--bundle", type=Path, metavar="DIR", help="of gpu_bundle.py and what travels beside it"
    )
    parser.add_argument(
        "--commit", default="", metavar="HASH", help="the commit, where there is no .git folder"
    )
    add_seconds(parser, 1500.0)
    options = parser.parse_args(argv)
    rows = [row for row in ROWS if README in row.pages] if options.readme else ROWS
    if options.status:
        return status(rows, options)
    if options.plan:
        return plan(rows, options.bundle)
    return run_stale(rows, options)


def status(rows: Sequence[RecordRow], options: argparse.Namespace) -> int:
    found = states(rows)
    if options.json:
        print(json.dumps([{**asdict(one), "commits": one.commits} for one in found], indent=1))
    else:
        for one in found:
            changed = (
                f": {counted(len(one.paths), 'file')}, {counted(one.commits, 'commit')}" if one.paths else ""
            )
            print(f"{one.state:<16} {one.file:<32} {one.age}{changed}".rstrip())
    stale = sum(one.state != FRESH for one in found)
    if stale:
        print(
            f"{stale} of {len(found)} records are not of this code; --plan says what a GPU would run, and of each record "
            "scripts/freshness/record_rows.py has the command",
            file=sys.stderr,
        )
    return 1 if stale else 0


def plan(rows: Sequence[RecordRow], folder: Path | None) -> int:
    stale = [row for row in rows if row.on_gpu and row.command and state_of(row).state != FRESH]
    for row in stale:
        print(
            f"{row.minutes:3} min  {row.file:<32} {row.command.split(' -')[0]}, with {row.needs or 'our libraries'}"
        )
    print(f"{sum(row.minutes for row in stale)} min in all")
    for name in dict.fromkeys(row.needs for row in stale if row.needs):
        place = (folder or Path("FOLDER")) / name
        size = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
        said = f"{size / 1e6:.0f} MB" if size else f"not packed: {NEEDS[name].format(folder=place)}"
        print(f"{name}: {said}")
    return 0


def run_stale(rows: Sequence[RecordRow], options: argparse.Namespace) -> int:
    """Makes this GPU's stale records anew until the time is over. Exit code 1 if any is left, 2 without a GPU or commit."""
    use_bundle(options.bundle)
    machine = describe(ROOT, [], options.commit)
    gpu, commit = slug(machine["gpu"]).split("-")[0], machine["commit"]
    mine = [row for row in rows if row.on_gpu and row.command and row.file.startswith(f"{gpu}/")]
    if not mine or commit == "unknown":
        wrong = (
            f"the table has no record of this GPU, {machine['gpu']}"
            if not mine
            else "the commit is not known"
        )
        print(f"{wrong}; expected: an H200, and .git or --commit HASH", file=sys.stderr)
        return 2
    clock = Clock.of(options.seconds)
    queue = []
    for row in mine:
        if missing := lacking(row, options.bundle):
            print(f"{row.file}: {missing} is not there; --plan says what writes it", flush=True)
        else:
            queue.append(row)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        while queue:
            untimed = [row for row in queue if not row.timed]
            together = queue[:1] if queue[0].timed else untimed[:AT_ONCE]
            list(pool.map(lambda row: renew(row, clock, options.bundle, commit), together))
            queue = [row for row in queue if row not in together]
    left = [row.file for row in mine if state_of(row).state != FRESH]
    print(f"{len(mine) - len(left)} of {len(mine)} records are fresh; left: {', '.join(left) or 'none'}")
    return 1 if left else 0


def renew(row: RecordRow, clock: Clock, bundle: Path | None, commit: str) -> None:
    """Runs the record's command until it is fresh, its time is over, or a run changed nothing."""
    before = None
    while (state := state_of(row)) != before and state.state != FRESH:
        limit_s = clock.box(STEP_S)
        if limit_s is None or limit_s < min(60 * row.minutes, STEP_S):
            break
        before = state
        ended = run_boxed(command_of(row, bundle, commit, limit_s), limit_s, ROOT)
        if row.command.startswith("-m") and ended.problem is None:
            record = json.loads(row.path.read_text(encoding="utf-8"))
            write_report(row.path, {**record, "rests_on": hashes(row.rests_on, tree_here())})
        print(
            f"{row.file}: {ended.seconds:.0f} s, {ended.problem or 'done'}; {state_of(row).age}", flush=True
        )


def lacking(row: RecordRow, bundle: Path | None) -> str:
    """What the row's command needs and --bundle has not; "" if nothing."""
    if not row.needs or (bundle and (row.needs == "bundle" or (bundle / row.needs).is_dir())):
        return ""
    return f"--bundle {bundle or 'DIR'}/{row.needs}" if row.needs != "bundle" else "--bundle DIR"


def command_of(row: RecordRow, bundle: Path | None, commit: str, limit_s: float) -> list[str]:
    words = {"record": row.path, "bundle": bundle or "", "commit": commit, "seconds": int(limit_s - END_S)}
    quoted = {name: shlex.quote(str(value)) for name, value in words.items()}
    return [sys.executable, *shlex.split(row.command.format(**quoted))]


if __name__ == "__main__":
    sys.exit(main())
