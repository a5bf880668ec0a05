"""Plants errors in real models, and checks that `trtsmith locate` names the right node for each of them.

    python scripts/planted_errors.py                              # in onnxruntime: needs neither GPU nor TensorRT
    python scripts/planted_errors.py --build-broken libbroken.so  # builds the library with a broken kernel, and no more
    python scripts/planted_errors.py --on gpu --broken-library libbroken.so --models DIR --output planted.json

On a GPU errors are planted in engines with plugins; the plugin whose node is found wrong is run alone as well, through the
plugin host, to tell a broken kernel from wrong fields. The reference is always the model as it is. Each node that was found
is searched for once more in the minimal model that was saved, and every model is searched with nothing planted: then
nothing may be named. Exit code 1 if one is missed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from harness.run_record import Record, script_parser  # noqa: E402
from planted.plants import PLANTS, Plant  # noqa: E402
from planted.run import Ground, control_of, row_of  # noqa: E402
from trtsmith.converter.base.errors import TrtsmithError  # noqa: E402
from trtsmith.converter.base.options.kinds import positive_int  # noqa: E402
from trtsmith.converter.cli.console import table  # noqa: E402
from trtsmith.converter.engine import libraries  # noqa: E402
from trtsmith.converter.engine.builder.build import build  # noqa: E402
from trtsmith.converter.engine.runtime.run_in_child import run_engine  # noqa: E402
from trtsmith.converter.locate.executors.executor import Onnxruntime  # noqa: E402
from trtsmith.converter.locate.executors.tensorrt import OnTensorRT  # noqa: E402
from trtsmith.converter.locate.prepare import replay_with  # noqa: E402
from trtsmith.converter.plugin.machine import describe  # noqa: E402
from trtsmith.importers.registry import OPS  # noqa: E402

ONNXRUNTIME, GPU = "onnxruntime", "gpu"


def main(argv: list[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    if options.build_broken:
        from planted.broken import build_broken
        from trtsmith.converter.compile.logged import SetupError

        try:
            build_broken(options.build_broken)
        except SetupError as error:
            print(error.tail, error, sep="\n", file=sys.stderr)  # the log itself went with its folder
            return 2
        return 0
    if options.on == GPU and options.broken_library is None:
        _parser().error("--on gpu needs --broken-library (--build-broken makes it)")
    try:
        return _run(options)
    except TrtsmithError as error:
        print("\n".join(map(str, error.problems)), file=sys.stderr)
        return error.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = script_parser(__doc__)
    names = [plant.name for plant in PLANTS]
    parser.add_argument("--on", choices=(ONNXRUNTIME, GPU), default=ONNXRUNTIME)
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=f"of: {'; '.join(names)}")
    parser.add_argument(
        "--models", type=Path, metavar="DIR", help="exported already (NAME_small.onnx, NAME_small.inputs.npz)"
    )
    parser.add_argument("--broken-library", type=Path, metavar="LIB")
    parser.add_argument("--build-broken", type=Path, metavar="LIB", help="build that library, and no more")
    parser.add_argument(
        "--at-once", type=positive_int, default=1, metavar="N", help="searches (default: %(default)s)"
    )
    parser.add_argument("--flavour", default="auto", choices=("auto", "tensorrt", "tensorrt_rtx"))
    parser.add_argument("--output", type=Path, metavar="JSON", help="the record")
    parser.add_argument("--commit", help="the commit, where the checkout has no .git folder")
    return parser


@dataclass(frozen=True)
class Job:
    """One search. plant: by name; None: with nothing planted."""

    model: str
    plant: str | None


def jobs_of(plants: Sequence[Plant]) -> list[Job]:
    """The jobs model by model, each beginning with a search with nothing planted."""
    jobs = []
    for model in dict.fromkeys(plant.model for plant in plants):
        mine = [plant for plant in plants if plant.model == model]
        jobs += [Job(model, None), *(Job(model, plant.name) for plant in mine)]
    return jobs


def _run(options: argparse.Namespace) -> int:
    plants = [plant for plant in PLANTS if not options.only or plant.name in options.only]
    head = {"on": options.on, **describe(ROOT, [libraries.plugin_library()], options.commit)}
    jobs = jobs_of(plants)
    record = Record(options.output, head, list(map(str, jobs)), "planted")

    def done(job: Job, row: dict[str, Any]) -> None:
        right = len(record.found) == len(jobs) - 1 and row["found"]
        record.head["passed"] = right and all(r["found"] for r in record.rows)
        record.add(str(job), row)
        what = row["plant"] or f"nothing planted in {row['model']}"
        print(f"{what}: {'right' if row['found'] else '; '.join(row['faults'])}", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory(prefix="trtsmith-planted-") as name:
        models = dict.fromkeys(job.model for job in jobs)
        files = {model: _exported(model, options.models, Path(name)) for model in models}
        if options.at_once == 1:
            for job in jobs:
                done(job, search_for(job, options, *files[job.model]))
        else:  # a process that CUDA or PyTorch has threads in must not be forked
            with ProcessPoolExecutor(options.at_once, get_context("spawn")) as pool:
                running = {pool.submit(search_for, job, options, *files[job.model]): job for job in jobs}
                for future in as_completed(running):
                    done(running[future], future.result())
    print(table([("planted", "in", "on", "verdict", "named", ""), *map(_line, record.rows)]))
    missed = sum(not row["found"] for row in record.rows)
    planted = sum(job.plant is not None for job in jobs)
    print(f"{planted} planted, {len(jobs) - planted} searches with nothing planted: {missed} wrong")
    return 1 if missed else 0


def search_for(job: Job, options: argparse.Namespace, model: Path, inputs: Path) -> dict[str, Any]:
    """The row of one job."""
    plant = next((plant for plant in PLANTS if plant.name == job.plant), None)
    ground = _ground(options, plant)
    if plant is None:
        return control_of(job.model, model, inputs, ground)
    with tempfile.TemporaryDirectory(prefix="trtsmith-plant-") as name:
        return row_of(plant, model, inputs, ground, Path(name))


def _line(row: dict[str, Any]) -> tuple[str, ...]:
    named = ", ".join(row.get("named", [])) or "-"
    verdict = "right" if row["found"] else "WRONG: " + "; ".join(row["faults"])
    return (row["plant"] or "nothing", row["model"], row["on"], row.get("status", "-"), named, verdict)


def _exported(name: str, folder: Path | None, work: Path) -> tuple[Path, Path]:
    if folder is not None:
        return folder / f"{name}_small.onnx", folder / f"{name}_small.inputs.npz"
    from models.export import export_model  # PyTorch

    exported = export_model(name, work, small=True)
    return exported.model, exported.inputs


def _ground(options: argparse.Namespace, plant: Plant | None) -> Ground:
    """The executor for a plant."""
    change = plant.change if plant is not None else None
    if options.on == ONNXRUNTIME:
        return Ground(Onnxruntime(), change)
    broken = plant is not None and plant.broken
    library = options.broken_library if broken else libraries.plugin_library()
    executor = OnTensorRT(build, run_engine, (library,), flavour=options.flavour)
    return Ground(
        executor,
        None if broken else change,
        replay_with({op.name: library for op in OPS}) if plant is not None and plant.kernel else None,
    )


if __name__ == "__main__":
    sys.exit(main())
