"""Plants errors in real models, and sees that `trtsmith locate` names the right node for each of them.

    python scripts/planted_errors.py                              # in onnxruntime: needs neither GPU nor TensorRT
    python scripts/planted_errors.py --build-broken libbroken.so  # builds the library with a broken kernel, and no more
    python scripts/planted_errors.py --on gpu --broken-library libbroken.so --models DIR --output planted.json

On a GPU, errors in standard nodes are planted in engines, with plugin nodes as standard operators; errors in plugin nodes
and their kernels are run through the plugin host, so that a TensorRT that imports no plugins will do. The reference is
always the model as it is. Each node that was found is searched for once more in the minimal model that was saved, and
every model is searched with nothing planted: then nothing may be named. Exit code 1 if one is missed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from planted.plants import PLANTS, Plant  # noqa: E402
from planted.run import Ground, control_of, row_of  # noqa: E402
from trtsmith.converter.cli.arguments import positive_int  # noqa: E402
from trtsmith.converter.cli.console import table  # noqa: E402
from trtsmith.converter.engine import libraries  # noqa: E402
from trtsmith.converter.engine.build.build import build  # noqa: E402
from trtsmith.converter.engine.runtime.run_in_child import run_engine  # noqa: E402
from trtsmith.converter.locate.executors.executor import Onnxruntime  # noqa: E402
from trtsmith.converter.locate.executors.kernels import OnKernels  # noqa: E402
from trtsmith.converter.locate.executors.tensorrt import OnTensorRT  # noqa: E402
from trtsmith.converter.locate.prepare import replay_with  # noqa: E402
from trtsmith.converter.model.errors import TrtsmithError  # noqa: E402
from trtsmith.converter.model.output_file import write_report  # noqa: E402
from trtsmith.converter.plugin.calls import Kernels  # noqa: E402
from trtsmith.converter.plugin.host.host_worker import LibraryWorker  # noqa: E402
from trtsmith.converter.plugin.machine import describe  # noqa: E402

ONNXRUNTIME, GPU = "onnxruntime", "gpu"
KERNEL_TIMEOUT_S = 120.0


def main(argv: list[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    if options.build_broken:
        from envsetup.steps import SetupError
        from planted.broken import build_broken

        try:
            build_broken(options.build_broken)
        except SetupError as error:
            print(error, file=sys.stderr)
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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
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
    """One search. plant: by name; None: with nothing planted. kernel: in plugin nodes, else in standard ones."""

    model: str
    plant: str | None
    kernel: bool


def jobs_of(plants: Sequence[Plant], on: str) -> list[Job]:
    """Lists the jobs model by model: first the searches with nothing planted, one on each ground."""
    jobs = []
    for model in dict.fromkeys(plant.model for plant in plants):
        mine = [plant for plant in plants if plant.model == model]
        grounds = dict.fromkeys(plant.kernel and on == GPU for plant in mine)
        jobs += [Job(model, None, kernel) for kernel in grounds]
        jobs += [Job(model, plant.name, plant.kernel) for plant in mine]
    return jobs


def _run(options: argparse.Namespace) -> int:
    plants = [plant for plant in PLANTS if not options.only or plant.name in options.only]
    head = {"on": options.on, **describe(ROOT, [libraries.plugin_library()], options.commit)}
    jobs = jobs_of(plants, options.on)
    found: dict[Job, dict[str, Any]] = {}

    def rows() -> list[dict[str, Any]]:
        return [found[job] for job in jobs if job in found]

    def done(job: Job, row: dict[str, Any]) -> None:
        found[job] = row
        passed = len(found) == len(jobs) and all(r["found"] for r in rows())
        write_report(options.output, head | {"passed": passed, "planted": rows()}, "--output")
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
    print(table([("planted", "in", "on", "verdict", "named", ""), *map(_line, rows())]))
    missed = sum(not row["found"] for row in rows())
    planted = sum(job.plant is not None for job in jobs)
    print(f"{planted} planted, {len(jobs) - planted} searches with nothing planted: {missed} wrong")
    return 1 if missed else 0


def search_for(job: Job, options: argparse.Namespace, model: Path, inputs: Path) -> dict[str, Any]:
    """The row of one job."""
    plant = next((plant for plant in PLANTS if plant.name == job.plant), None)
    with (
        tempfile.TemporaryDirectory(prefix="trtsmith-plant-") as name,
        _ground(options, plant, job.kernel) as ground,
    ):
        if plant is None:
            return control_of(job.model, model, inputs, ground)
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


@contextmanager
def _ground(options: argparse.Namespace, plant: Plant | None, kernel: bool) -> Iterator[Ground]:
    """What a plant runs on; kernel: whether it is in a plugin node."""
    change = plant.change if plant is not None else None
    if options.on == ONNXRUNTIME:
        yield Ground(Onnxruntime(), change, native=False)
    elif not kernel:
        yield Ground(OnTensorRT(build, run_engine, flavour=options.flavour), change, native=True)
    else:
        broken = plant is not None and plant.broken
        library = options.broken_library if broken else libraries.plugin_library()
        with LibraryWorker(library, None, KERNEL_TIMEOUT_S) as worker:
            kernels = OnKernels(Kernels(worker, library))
            yield Ground(kernels, None if broken else change, native=False, replay=replay_with(library))


if __name__ == "__main__":
    sys.exit(main())
