"""Checks bombs, each within 10 s and 1 GiB, and records their costs.

    python scripts/fuzzing/bomb_runs.py --record benchmarks/bombs.json    # those with names, and 100 that are drawn
    python scripts/fuzzing/bomb_runs.py --models 1000 --seed 5

A finding is what it is in fuzz_models.py. Larger models, of a million nodes or 100,000 of another thing, may take two
minutes.
Times are of the processor: the machine may have other work. The exit code is 1 if there are findings.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from fuzzing.bombs import MANY, drawn_bomb, named_bombs, rows_of_nodes  # noqa: E402
from fuzzing.fuzz_process import FuzzProcess, Limits  # noqa: E402
from fuzzing.judged_trial import MODEL, FuzzTrial, run_trial  # noqa: E402
from harness.run_record import script_parser, write_record  # noqa: E402

LIMITS = Limits(cpu_s=10, wall_s=200, resident_mib=1024, address_mib=6144)
OF_A_MILLION = Limits(cpu_s=120, wall_s=1200, resident_mib=1024, address_mib=6144)


def main(argv: Sequence[str] | None = None) -> int:
    parser = script_parser(__doc__)
    parser.add_argument(
        "--seed", type=int, default=30, help="another seed, other models (default %(default)s)"
    )
    parser.add_argument("--models", type=int, default=100, help="how many are drawn (default %(default)s)")
    parser.add_argument("--record", type=Path, metavar="JSON", help="write what each took")
    options = parser.parse_args(argv)
    runs = list(checked(bombs(options.seed, options.models), LIMITS))
    small = len(runs)
    runs += checked(large_models(), OF_A_MILLION)
    write_record(options.record, {"seed": options.seed, "drawn": options.models, "models": runs}, "--record")
    bad = [run for run in runs if run["findings"]]
    longest, largest = (max(run[key] or 0 for run in runs[:small]) for key in ("cpu_s", "mib"))
    print(f"{len(runs)} models, {len(bad)} with findings; at most {longest} s and {largest} MiB")
    return int(bool(bad))


def bombs(seed: int, count: int) -> Iterator[tuple[str, bytes]]:
    """Names and models: the fixed ones, and `count` that the seed draws."""
    yield from named_bombs().items()
    for index in range(count):
        family, data = drawn_bomb(random.Random(f"{seed} {index}"))
        yield f"{index}, {family}", data


def large_models() -> Iterator[tuple[str, bytes]]:
    """Names and models: a million nodes, and 100,000 of each other thing."""
    yield "a million nodes", bytes(rows_of_nodes(1_000_000, "Abs").SerializeToString())
    for name, made in MANY.items():
        yield f"100,000 {name}", bytes(made(100_000).SerializeToString())


def checked(models: Iterator[tuple[str, bytes]], limits: Limits) -> Iterator[dict[str, Any]]:
    """The result of `check` for each model."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        process = FuzzProcess(Path(folder), limits)
        for name, data in models:
            run = _run(name, data, run_trial(process, data, [["check", MODEL]]))
            print(json.dumps(run), flush=True)
            yield run
        process.close()


def _run(name: str, data: bytes, trial: FuzzTrial) -> dict[str, Any]:
    return {
        "name": name,
        "bytes": len(data),
        "code": trial.codes[0],
        "cpu_s": round(trial.cpu_s, 1),
        "mib": trial.mib,
        "findings": [f"{finding.kind}: {finding.place}" for finding in trial.findings],
    }


if __name__ == "__main__":
    sys.exit(main())
