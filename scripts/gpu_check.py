"""Runs all GPU checks on this machine, without a network, and records what they find as JSON.

    python3 scripts/gpu_check.py                     # writes benchmarks/<gpu>/check.json
    python3 scripts/gpu_check.py --only accuracy     # one step, or several
    python3 scripts/gpu_check.py --engines --bundle DIR    # the steps that run engines: writes benchmarks/<gpu>/engines.json

Needs the compiled libraries (converter/lib, or TRTSMITH_LIBRARY_DIR), an NVIDIA GPU, numpy, ml_dtypes, onnx, PyTorch
with CUDA, torchvision and compute-sanitizer; TensorRT for --engines only, where a step fails that does not
find it. --bundle: where scripts/gpu_bundle.py unpacked TensorRT and models. Every step runs in a child process with a
time limit, several at once (--parallel), on the machine's GPUs in turn, and the record is written after each. The exit
code is 0 only if every step ran and passed.
"""

from __future__ import annotations

import argparse
import importlib
import os
import shlex
import sys
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from gpubundle.unpack import SITE, model_folder, with_bundle  # noqa: E402
from gpucheck.record import Notes, StepResult, read_notes, table, write_record  # noqa: E402
from harness.processes import Clock, run_boxed  # noqa: E402
from trtsmith.converter.engine.libraries import plugin_library, plugin_library_v2  # noqa: E402
from trtsmith.converter.model.errors import TrtsmithError  # noqa: E402
from trtsmith.converter.plugin.machine import describe, slug, visible_gpus  # noqa: E402
from trtsmith.importers.opdef import OpDef  # noqa: E402
from trtsmith.importers.registry import OPS  # noqa: E402


@dataclass(frozen=True)
class Step:
    """limit_s: the most that it may take."""

    name: str
    limit_s: float
    what: str


FIRST = Step("references", 240, "right answers, computed once")
# They run side by side, those that take longest first. Of two GPUs every other step has one, so that the sanitizer slows
# nothing down that takes long itself.
STEPS = (
    FIRST,
    Step("sanitizer", 400, "compute-sanitizer on all small cases and the benchmarks' sizes"),
    Step("accuracy", 560, "our error and the framework's, tolerances, determinism"),
    Step("huge", 120, "tensors of more than 2^31 elements"),
    Step("plugins", 560, "contract and kernels of the IPluginV3 library, all cases and dtypes"),
    Step("pytest", 300, "tests/gpu, without those of engines"),
    Step("plugins-v2", 560, "contract and kernels of the IPluginV2 library, all cases and dtypes"),
)
ENGINE_STEPS = (
    Step("stress", 560, "many sessions of several engines at once, in processes and threads"),
    Step("planted", 560, "planted errors, each of which has to be found"),
    Step("networks", 560, "networks at all ends of their shapes, judged by references of the bundle"),
    Step("operators", 560, "every operator's cases inside engines, by every route"),
    Step("engine-sanitizer", 560, "compute-sanitizer's memcheck on all small cases inside engines"),
    Step("layers", 300, "layers that TensorRT fuses: a product with what stands behind it"),
    Step("sums", 120, "in what type products are summed, layer by layer"),
    Step("engine-pytest", 360, "tests/gpu/engines"),
    Step("onnx-tests", 420, "ONNX's backend node tests against ONNX's outputs"),
    Step("graphs", 240, "random graphs against onnxruntime"),
    Step("rules", 120, "the examples of every rewrite rule against the original's outputs"),
)
ENGINE_CHECKS = {
    "onnx-tests": "node_tests",
    "graphs": "drawn.random_graphs",
    "layers": "fused_layers",
    "operators": "plugin_engines",
    "rules": "rule_examples",
    "stress": "stress",
    "sums": "product_sums",
}
"""By step, the module whose `check` is the step: those that need nothing but a folder, a time limit and notes."""

ALL = {step.name: step for step in (*STEPS, *ENGINE_STEPS)}


def main() -> int:
    arguments = parse()
    if arguments.run_kernels == "engines":
        return run_engines_watched(arguments.operators or [op.name for op in OPS])
    if arguments.run_kernels:
        from gpucheck.kernels import run_kernels

        return 1 if run_kernels(arguments.run_kernels, arguments.operators, arguments.folder) else 0
    if arguments.step:
        run_step(arguments)
        return 0
    return run_all(arguments)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--output", type=Path, help="the record; default benchmarks/<gpu>/check.json, or engines.json"
    )
    parser.add_argument("--engines", action="store_true", help="the steps that run engines, and no others")
    parser.add_argument("--bundle", type=Path, metavar="DIR", help="what scripts/gpu_bundle.py unpacked")
    parser.add_argument(
        "--seconds", type=float, default=560.0, help="for all steps together (default %(default)g)"
    )
    parser.add_argument(
        "--parallel", type=int, default=5, help="steps at once (default %(default)d; GPU memory: 35 GB)"
    )
    parser.add_argument("--only", nargs="+", choices=list(ALL), help="these steps and no other")
    parser.add_argument("--commit", help="the commit, where the checkout has no .git folder")
    parser.add_argument(
        "--run-kernels",
        choices=("small", "large", "wide", "overflow", "unwritten", "engines"),
        help="for compute-sanitizer",
    )
    parser.add_argument(
        "--operators",
        nargs="+",
        metavar="NAME",
        help="these only, in the steps references, accuracy, plugins, plugins-v2, sanitizer and engine-sanitizer",
    )
    parser.add_argument("--networks", nargs="+", metavar="NAME", help="these only, in the step networks")
    parser.add_argument("--step", choices=list(ALL), help=argparse.SUPPRESS)
    parser.add_argument("--notes", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--limit", type=float, default=60.0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.engines |= bool(arguments.only) and set(arguments.only) <= {step.name for step in ENGINE_STEPS}
    wrong = set(arguments.only or ()) - {step.name for step in chosen_steps(arguments)}
    unknown = sorted(set(arguments.operators or ()) - {op.name for op in OPS})
    if unknown:
        parser.error(
            f"--operators {' '.join(unknown)}: no such operator; expected some of {', '.join(op.name for op in OPS)}"
        )
    if wrong:
        parser.error(
            f"steps with and without engines have records of their own: leave out {', '.join(sorted(wrong))}"
        )
    return arguments


def chosen_steps(arguments: argparse.Namespace) -> list[Step]:
    steps = ENGINE_STEPS if arguments.engines else STEPS
    return [step for step in steps if not arguments.only or step.name in arguments.only]


def run_all(arguments: argparse.Namespace) -> int:
    clock = Clock.of(arguments.seconds)
    if arguments.bundle is not None:
        os.environ.update(with_bundle(arguments.bundle, os.environ))  # for the steps
        sys.path.insert(0, str(arguments.bundle / SITE))  # for the versions in the record
    try:
        libraries = [plugin_library(), plugin_library_v2()]
    except TrtsmithError as error:
        print(error.problems[0], file=sys.stderr)
        return error.exit_code
    head = describe(ROOT, libraries, arguments.commit)
    record = "engines.json" if arguments.engines else "check.json"
    output = arguments.output = arguments.output or ROOT / "benchmarks" / slug(head["gpu"]) / record
    head["command"] = _command(arguments)
    steps = chosen_steps(arguments)
    gpus = visible_gpus(os.environ)
    done: dict[str, StepResult] = {}
    lock = threading.Lock()
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as name:

        def run(step: Step) -> None:
            gpu = gpus[steps.index(step) % len(gpus)]
            result = _boxed(step, clock, Path(name), arguments, gpu)
            with lock:
                done[step.name] = result
                ordered = [done[step.name] for step in steps if step.name in done]
                write_record(output, head | {"passed": _passed(ordered, steps)}, ordered)
            print(f"{step.name}: {result.verdict}, {result.seconds:.1f} s", file=sys.stderr, flush=True)

        if FIRST in steps:  # what it leaves the others read
            run(FIRST)
        with ThreadPoolExecutor(max(arguments.parallel, 1)) as pool:
            list(pool.map(run, [step for step in steps if step != FIRST]))
    results = [done[step.name] for step in steps]
    print(table(results))
    passed = _passed(results, steps)
    print(f"{'passed' if passed else 'FAILED'} on {head['gpu']}; recorded in {output.name}")
    return 0 if passed else 1


def _boxed(step: Step, clock: Clock, folder: Path, arguments: argparse.Namespace, gpu: str) -> StepResult:
    limit_s = clock.box(step.limit_s)
    if limit_s is None:
        return StepResult(step.name, "not run", "no time was left", failures=["no time was left"])
    notes = folder / f"{step.name}.jsonl"
    # Several processes share the cores; unbounded, each would start a BLAS thread for every one.
    threads = max((os.cpu_count() or 1) // 4, 1) if step is not FIRST else 1
    command = ["env", f"OMP_NUM_THREADS={threads}", f"OPENBLAS_NUM_THREADS={threads}"]
    command += [f"CUDA_VISIBLE_DEVICES={gpu}"]
    command += [sys.executable, str(Path(__file__).resolve()), "--step", step.name, "--notes", str(notes)]
    # The step's own children end before it does, so that it can still say what they found.
    command += [
        "--folder",
        str(folder),
        "--limit",
        str(max(limit_s - 10, 1)),
        "--output",
        str(arguments.output),
    ]
    if arguments.bundle is not None:
        command += ["--bundle", str(arguments.bundle)]
    for flag, names in (("--operators", arguments.operators), ("--networks", arguments.networks)):
        command += [flag, *names] if names else []
    ended = run_boxed(command, limit_s, ROOT)
    result = read_notes(notes, step.name, ended.problem)
    result.seconds = ended.seconds
    return result


def _passed(results: list[StepResult], steps: list[Step]) -> bool:
    """A record of which steps are missing does not say that all passed."""
    return len(results) == len(steps) and all(result.verdict == "pass" for result in results)


def _command(arguments: argparse.Namespace) -> str:
    """The command without --output and --commit, which change nothing that is measured."""
    words = ["python3", "scripts/gpu_check.py", "--seconds", f"{arguments.seconds:g}"]
    words += ["--engines"] if arguments.engines else []
    words += ["--only", *arguments.only] if arguments.only else []
    words += ["--operators", *arguments.operators] if arguments.operators else []
    words += ["--networks", *arguments.networks] if arguments.networks else []
    return shlex.join(words)


def run_step(arguments: argparse.Namespace) -> None:
    """Runs a step in the child. PyTorch is imported only by the steps that need it."""
    name, folder, limit_s = arguments.step, arguments.folder, arguments.limit
    notes = Notes(arguments.notes)
    ops = [op for op in OPS if not arguments.operators or op.name in arguments.operators]
    if name in {step.name for step in ENGINE_STEPS}:
        run_engine_step(arguments, notes, ops)
    elif name == "references":
        from gpucheck.references import prepare

        prepare(folder, notes, ops)
    elif name in ("plugins", "plugins-v2"):
        from gpucheck.plugins import check as check_plugins

        library = plugin_library() if name == "plugins" else plugin_library_v2()
        check_plugins(library, folder, notes, [op.name for op in ops])
    elif name == "accuracy":
        from gpucheck.accuracy import measure

        measure(folder, notes, ops)
    elif name == "sanitizer":
        from gpucheck.sanitizer import check as check_sanitizer

        check_sanitizer(Path(__file__).resolve(), folder, limit_s, notes, ops)
    elif name == "huge":
        from gpucheck.huge import check as check_huge

        check_huge(notes)
    elif name == "pytest":
        _pytest(["tests/gpu", "--ignore=tests/gpu/engines"], limit_s, notes)


def run_engine_step(arguments: argparse.Namespace, notes: Notes, ops: Sequence[OpDef]) -> None:
    """Runs an engine step in the child, which has the bundle on its paths."""
    from gpucheck.engines import missing

    name, folder, limit_s, bundle = arguments.step, arguments.folder, arguments.limit, arguments.bundle
    if missing(notes):
        return
    if name in ENGINE_CHECKS:
        importlib.import_module(f"gpucheck.{ENGINE_CHECKS[name]}").check(folder, limit_s, notes)
    elif name == "engine-sanitizer":
        from gpucheck.sanitizer import ENGINE_TOOLS
        from gpucheck.sanitizer import check as check_sanitizer

        check_sanitizer(Path(__file__).resolve(), folder, limit_s, notes, ops, ENGINE_TOOLS)
    elif name == "networks":
        from gpucheck.networks import check as check_networks

        kept = arguments.output.with_name(f"{arguments.output.stem}_outputs")
        check_networks(folder, bundle and model_folder(bundle), limit_s, notes, arguments.networks, kept)
    elif name == "engine-pytest":
        _pytest(["tests/gpu/engines"], limit_s, notes)
    else:
        from gpucheck.planted_step import check as check_planted

        check_planted(bundle, limit_s, notes)


def run_engines_watched(operators: Sequence[str]) -> int:
    """What compute-sanitizer watches in the step engine-sanitizer. 1 if an output is wrong."""
    from gpucheck.kernels import RAN
    from gpucheck.plugin_engines import run_watched

    with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
        passed, failures = run_watched(operators, Path(folder))
    for failure in failures:
        print(failure)
    print(f"{passed + len(failures)} {RAN}, {len(failures)} wrong")
    return 1 if failures else 0


def _pytest(what: Sequence[str], limit_s: float, notes: Notes) -> None:
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    ended = run_boxed(
        [sys.executable, "-m", "pytest", *what, "--require-gpu", "-q", "-p", "no:cacheprovider"],
        limit_s,
        ROOT,
    )
    if ended.problem:
        notes.failure(ended.problem)
    lines = [line for line in ended.output.splitlines() if line.strip()]
    notes.summary(lines[-1].strip("= ") if lines else "no output")


if __name__ == "__main__":
    sys.exit(main())
