"""Changes models at random and runs the commands on them: every failure must be explained to the user.

    python scripts/fuzzing/fuzz_models.py                                 # 1,000 models, some minutes
    python scripts/fuzzing/fuzz_models.py --models 10000 --jobs 2 --seed 7 --keep FOLDER
    python scripts/fuzzing/fuzz_models.py --time 600 --models 1000000     # for ten minutes
    python scripts/fuzzing/fuzz_models.py --replay FOLDER/003-internal-error.onnx

The models are the examples of every rule and of every known node of a foreign operator, ONNX's own backend tests, the
samples of the documents, and bombs (bombs.py; bomb_runs.py runs these as they are). Each is changed in its bytes, in any
field of any message, or in its graph, and goes through check, rewrite and rewrite --expand, for a target and a precision
that are drawn; one of a hundred is converted, too. Models that make the toolkit call its functions from places that no
model before did are changed further.

A finding is an internal error or a traceback, a rule that cannot read a node of a model that onnxruntime takes, another exit
code than 0 to 4, a failure without a message, a rule that breaks its promise, a process that dies or works for more than 20
seconds, memory above 1 GiB, and files that are left behind.
--keep saves a model for each, made as small as possible. The exit code is 1 if there are findings.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from fuzzing.campaign import Campaign, FuzzOptions, run_campaign  # noqa: E402
from fuzzing.fuzz_process import FuzzProcess, Limits  # noqa: E402
from fuzzing.judged_trial import MODEL, OUTPUT, run_trial  # noqa: E402
from fuzzing.starting_models import ALL, starting_models  # noqa: E402
from harness.run_record import script_parser  # noqa: E402


def main(argv: Sequence[str] | None = None) -> int:
    parser = script_parser(__doc__)
    parser.add_argument(
        "--seed", type=int, default=0, help="another seed, other models (default %(default)s)"
    )
    parser.add_argument("--models", type=int, default=1000, help="how many (default %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="number of the first one (default %(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time (default %(default)s)")
    parser.add_argument("--time", type=float, default=0, metavar="SECONDS", help="end after this time")
    parser.add_argument(
        "--plain", action="store_true", help="change none of the models further that reach new calls"
    )
    parser.add_argument(
        "--convert-every",
        type=int,
        default=100,
        metavar="N",
        help="convert one of N; 0: none (default %(default)s)",
    )
    parser.add_argument(
        "--source", action="append", choices=ALL, help="models of this source; may be repeated"
    )
    parser.add_argument(
        "--cache", type=Path, metavar="FOLDER", help="where the models are kept for the next run"
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="save a model for each finding")
    parser.add_argument(
        "--replay", type=Path, nargs="+", metavar="MODEL", help="run these models as they are"
    )
    options = parser.parse_args(argv)
    if options.replay:
        return replay(options.replay)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as passing:
        starting = starting_models(tuple(options.source or ALL), options.cache or Path(passing))
    print(f"{len(starting)} models to change", file=sys.stderr, flush=True)
    campaign = run_campaign(
        FuzzOptions(
            options.seed,
            options.models,
            options.first,
            options.jobs,
            options.time,
            not options.plain,
            options.convert_every,
            options.keep,
        ),
        starting,
        lambda text: print(f"{time.monotonic() - began:6.0f} s  {text}", file=sys.stderr, flush=True),
    )
    print(table(campaign))
    return 1 if campaign.found else 0


def replay(models: Sequence[Path]) -> int:
    """Runs every command on the given models, unchanged."""
    bad = False
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        process = FuzzProcess(Path(folder), Limits())
        for path in models:
            for words in (["check", MODEL, "-v"], ["rewrite", MODEL, "-v", "-o", OUTPUT, "--expand"]):
                trial = run_trial(process, path.read_bytes(), [words])
                said = "; ".join(f"{finding.kind}: {finding.place}" for finding in trial.findings)
                bad |= bool(trial.findings)
                print(f"{path}: {words[0]}: {said or f'exit code {trial.codes[0]}'}", flush=True)
        process.close()
    return int(bad)


def table(campaign: Campaign) -> str:
    """The numbers of runs and findings, most frequent first."""
    codes = ", ".join(f"{count} x {code}" for code, count in sorted(campaign.codes.items(), key=str))
    lines = [
        f"{campaign.models} models, {len(campaign.further)} of them changed further; exit codes: {codes}"
    ]
    for found in sorted(campaign.found.values(), key=lambda found: -found.count):
        finding = found.finding
        lines.append(
            f"{found.count:6d}  {finding.kind}  {finding.place}  ({finding.words[0]}; first: {found.model})"
        )
    return "\n".join(lines if campaign.found else [*lines, "no findings"])


if __name__ == "__main__":
    sys.exit(main())
