"""Measures the overhead of commands: CPU seconds beyond those of a bare interpreter, best of four.

    python scripts/startup_seconds.py                 # prints them, and compares with LIMITS
    python scripts/startup_seconds.py --json benchmarks/startup.json

The model is the detector of the documents' samples, with an operator of mmcv's. CPU seconds are of user and system: other
work on the machine changes them less than those on the clock. The exit code is 1 if a command takes more than its limit.
"""

from __future__ import annotations

import compileall
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

LIMITS = {"--version": 0.1, "--help": 0.1, "check detector.onnx": 0.35}
COMMANDS = (*LIMITS, "ops", "convert --help", "rewrite detector.onnx -o rewritten.onnx")
RUNS = 4


def cpu_seconds(words: Sequence[str], folder: Path) -> float:
    """The least CPU seconds of RUNS runs of Python with these arguments. Raises CalledProcessError if one fails."""
    from tests.processes import checkout_environment

    environment = checkout_environment(OMP_NUM_THREADS="1")
    spent = []
    for _ in range(RUNS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *words], cwd=folder, env=environment, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(spent)


def main(argv: Sequence[str] | None = None) -> int:
    from harness.run_record import script_parser, write_record
    from trtsmith.converter.samples.sample_models import write_samples

    parser = script_parser(__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record")
    options = parser.parse_args(argv)
    for package in (
        "converter",
        "importers",
        "trtsmith",
    ):  # as an installation has it: bytecode of every module
        compileall.compile_dir(ROOT / package, quiet=2)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_samples(["detector"], folder)
        bare = cpu_seconds(["-c", "pass"], folder)
        found = {words: cpu_seconds(["-m", "trtsmith", *words.split()], folder) - bare for words in COMMANDS}
    seconds = {words: round(value, 3) for words, value in found.items()}
    record = {
        "runs": RUNS,
        "bare": round(bare, 3),
        "seconds": seconds,
        "limits": LIMITS,
    }
    print(json.dumps(write_record(options.json, record, "--json"), indent=1))
    return 1 if any(seconds[words] > limit for words, limit in LIMITS.items()) else 0


if __name__ == "__main__":
    sys.exit(main())
