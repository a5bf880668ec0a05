"""Compares `check` and `rewrite` of two checkouts on the same models, node for node and record for record.

    python scripts/compare_checkouts.py BEFORE AFTER                              # all models, some minutes
    python scripts/compare_checkouts.py BEFORE AFTER --only rules --models 'pool'
    python scripts/compare_checkouts.py BEFORE AFTER --output record.json

The models are ONNX's own backend node tests, the examples of the rules, every known node of a foreign operator and real
networks (checkoutdiff/model_sources.py), as BEFORE writes them. The commands of each checkout run in processes of their
own. Names that neither the model nor its user gave may differ, and so may the order of nodes that do not depend on each
other; both are counted. The exit code is 1 if a model differs.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts")]

from checkoutdiff.checkout_state import commit_of  # noqa: E402
from checkoutdiff.comparison_report import render, to_record  # noqa: E402
from checkoutdiff.driver_pool import SCRIPTS, python_of, run_jobs  # noqa: E402
from checkoutdiff.likeness import Likeness, compare  # noqa: E402

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
    parser.add_argument("--output", type=Path, metavar="JSON", help="write the record")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time (default %(default)s)")
    parser.add_argument(
        "--timeout", type=float, default=300, help="seconds for one model (default %(default)s)"
    )
    options = parser.parse_args(argv)
    commits = {side: commit_of(getattr(options, side)) for side in ("before", "after")}
    with tempfile.TemporaryDirectory(prefix="compare-") as name:
        folder = Path(name)
        record = to_record(run_both(options, dict(make_jobs(options, folder))), commits)
    if options.output is not None:
        options.output.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(render(record))
    return 1 if record["differing"] else 0


def make_jobs(options: argparse.Namespace, folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The drivers' jobs by name, slow models first."""
    for source in SOURCES:
        if options.only and source not in options.only:
            continue
        write_models(options.before.resolve(), folder, source)
        for subject in json.loads((folder / f"{source}.json").read_text(encoding="utf-8")):
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


def write_models(checkout: Path, folder: Path, source: str) -> None:
    progress(f"{source}: the models are written")
    wheels = folder / "wheels"
    wheels.mkdir(exist_ok=True)
    command, environment = python_of(checkout, SCRIPTS)
    words = ["-m", "checkoutdiff.model_sources", folder, source, wheels]
    subprocess.run([*command, *map(str, words)], check=True, cwd=checkout, env=environment)


def run_both(options: argparse.Namespace, jobs: Mapping[str, Any]) -> dict[str, Likeness]:
    """Runs every job in both checkouts and compares the results, by job."""
    before = dict(watched(options, options.before, list(jobs.items())))
    likenesses = {
        name: compare(before.pop(name), found)
        for name, found in watched(options, options.after, list(jobs.items()))
    }
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
