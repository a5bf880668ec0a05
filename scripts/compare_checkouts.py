"""Compares what `check` and `rewrite` of two checkouts make of the same models, node for node and record for record.

    python scripts/compare_checkouts.py BEFORE AFTER                              # all models, some minutes
    python scripts/compare_checkouts.py BEFORE AFTER --only rules --models 'pool'
    python scripts/compare_checkouts.py BEFORE AFTER --cache FOLDER --expected expected.json --output record.json

The models are ONNX's own backend node tests, the examples of the rules, every known node of a foreign operator and real
networks (checkoutdiff/model_sources.py), as BEFORE writes them. The commands of each checkout run in processes of their
own. Names that neither the model nor its user gave may differ, and so may the order of nodes that do not depend on each
other; both are counted. --cache keeps the models, and what BEFORE made of them, by its commit.

--expected names a JSON file: {"models": {PATTERN: REASON}, "words": {BEFORE: AFTER}, "added": [KEY]}. A pattern, with *
and ?, is of SOURCE/NAME or of "SOURCE/NAME FLAVOUR PRECISION"; words are what the later checkout says otherwise, and added
are keys that only its records have, both on purpose. The exit code is 1 if a model differs that no pattern names, and,
where all models are compared, if a pattern names none that differs.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts")]

from checkoutdiff.comparison_report import Expected, read_expected, render, to_record  # noqa: E402
from checkoutdiff.driver_pool import SCRIPTS, python_of, run_jobs  # noqa: E402
from checkoutdiff.likeness import Likeness, compare  # noqa: E402
from checkoutdiff.result_store import commit_of, key_of, store, stored  # noqa: E402

SOURCES = ("networks", "rules", "foreign", "suite")
FLAVOURS = ("tensorrt", "tensorrt_rtx")
OWN, FROZEN = "own", "frozen"
PRECISIONS = (OWN, FROZEN, "fp32", "fp16", "bf16")
"""OWN: as the model has it. FROZEN: the same, with inputs that TensorRT wants constant frozen to those of ONNX's test."""

USUAL: Mapping[str, tuple[str, ...]] = {
    "suite": (OWN, FROZEN, "fp16"),
    "rules": (OWN, "fp32", "fp16", "bf16"),
    "foreign": (OWN, "fp16", "bf16"),
    "networks": (OWN, "fp16", "bf16"),
}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path, metavar="BEFORE", help="a checkout; it names the models")
    parser.add_argument("after", type=Path, metavar="AFTER", help="another, or the same")
    parser.add_argument(
        "--only", action="append", choices=SOURCES, help="models of this source; may be repeated"
    )
    parser.add_argument("--models", default="", metavar="REGEX", help="models whose SOURCE/NAME matches")
    parser.add_argument("--flavour", action="append", choices=FLAVOURS, help="default: both")
    parser.add_argument("--precision", action="append", choices=PRECISIONS, help="default: by source")
    parser.add_argument("--expected", type=Path, metavar="JSON", help="differences that are meant")
    parser.add_argument("--output", type=Path, metavar="JSON", help="write the record")
    parser.add_argument("--cache", type=Path, metavar="FOLDER", help="what is kept for the next run")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time (default %(default)s)")
    parser.add_argument(
        "--timeout", type=float, default=300, help="seconds for one model (default %(default)s)"
    )
    options = parser.parse_args(argv)
    expected = read_expected(options.expected)
    with ExitStack() as held:
        commits = {side: commit_of(getattr(options, side)) for side in ("before", "after")}
        passing = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="compare-")))
        base = options.cache or passing
        folder = (base / key_of(commits["before"])).resolve() if commits["before"] else passing
        folder.mkdir(parents=True, exist_ok=True)
        jobs = dict(make_jobs(options, folder, base / "wheels"))
        found = run_both(options, jobs, folder / "before.jsonl.gz", expected)
        record = to_record(found, expected, commits)
        if options.only or options.models or options.flavour or options.precision:
            record["unmatched"] = []
    if options.output is not None:
        options.output.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(render(record))
    return 1 if record["unexpected"] or record["unmatched"] else 0


def make_jobs(
    options: argparse.Namespace, folder: Path, wheels: Path
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Jobs of the drivers by name, models that are slow first."""
    for source in SOURCES:
        if options.only and source not in options.only:
            continue
        listed = folder / f"{source}.json"
        if not listed.is_file():
            write_models(options.before.resolve(), folder, source, wheels)
        for subject in json.loads(listed.read_text(encoding="utf-8")):
            model = f"{source}/{subject['name']}"
            if not re.search(options.models, model):
                continue
            for flavour in options.flavour or FLAVOURS:
                for precision in options.precision or USUAL[source]:
                    if precision == FROZEN and not subject["inputs"]:
                        continue
                    yield (
                        f"{model} @{flavour} {precision}",
                        {
                            "model": str(folder / subject["file"]),
                            "inputs": str(folder / subject["inputs"]) if precision == FROZEN else None,
                            "flavour": flavour,
                            "precision": OWN if precision == FROZEN else precision,
                        },
                    )


def write_models(checkout: Path, folder: Path, source: str, wheels: Path) -> None:
    progress(f"{source}: the models are written")
    wheels.mkdir(parents=True, exist_ok=True)
    command, environment = python_of(checkout, SCRIPTS)
    words = ["-m", "checkoutdiff.model_sources", folder, source, wheels.resolve()]
    subprocess.run([*command, *map(str, words)], check=True, cwd=checkout, env=environment)


def run_both(
    options: argparse.Namespace, jobs: Mapping[str, Any], path: Path, expected: Expected
) -> dict[str, Likeness]:
    """Runs every job in both checkouts and compares the results, by job; what BEFORE finds is stored."""
    before = {name: found for name, found in stored(path).items() if name in jobs}
    missing = [(name, job) for name, job in jobs.items() if name not in before]
    with gzip.open(path, "at", encoding="utf-8", compresslevel=4) as file:
        for name, found in watched(options, options.before, missing):
            store(file, name, found)
            before[name] = found
    likenesses = {}
    for name, found in watched(options, options.after, list(jobs.items())):
        likenesses[name] = compare(before.pop(name), found, expected.words, expected.added)
    return {name: likenesses[name] for name in jobs}


def watched(
    options: argparse.Namespace, checkout: Path, jobs: Sequence[tuple[str, Any]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    started = time.monotonic()
    found = run_jobs(checkout.resolve(), jobs, options.jobs, options.timeout)
    for done, pair in enumerate(found, 1):
        if done % 1000 == 0 or done == len(jobs):
            progress(f"{checkout}: {done} of {len(jobs)}, {time.monotonic() - started:.0f} s")
        yield pair


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
