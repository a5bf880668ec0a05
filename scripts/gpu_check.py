"""Runs all GPU checks on this machine, without a network, and records the findings as JSON.

    python3 scripts/gpu_check.py                     # writes benchmarks/<gpu>/check.json
    python3 scripts/gpu_check.py --only accuracy     # one step, or several
    python3 scripts/gpu_check.py --resume            # the steps that have not passed yet
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
import inspect
import os
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from gpubundle.unpack import model_folder  # noqa: E402
from gpucheck.record import Notes, StepResult, passed_before, read_notes, table, write_record  # noqa: E402
from harness.processes import Clock, run_boxed  # noqa: E402
from harness.run_record import add_resume, add_seconds, gpu_parser, gpu_record  # noqa: E402
from trtsmith.converter.base.errors import TrtsmithError  # noqa: E402
from trtsmith.converter.engine.libraries import plugin_library, plugin_library_v2  # noqa: E402
from trtsmith.converter.plugin.machine import visible_gpus  # noqa: E402
from trtsmith.importers.registry import OPS  # noqa: E402


@dataclass(frozen=True)
class Step:
    """A step of the check. limit_s: its time limit. check: module of gpucheck and function, whose parameters name what it
    needs of `run_step`.
    """

    name: str
    limit_s: float
    check: str


FIRST = Step("references", 240, "references:check")  # right answers, computed once
# They run side by side, those that take longest first. Of two GPUs every other step has one, so that the sanitizer slows
# nothing down that takes long itself.
STEPS = (
    FIRST,
    # compute-sanitizer on all small cases and the benchmarks' sizes.
    Step("sanitizer", 400, "sanitizer:check"),
    Step("accuracy", 560, "accuracy:check"),  # our error and the framework's, tolerances, determinism
    Step("huge", 120, "huge:check"),  # tensors of more than 2^31 elements
    # Contract and kernels of the IPluginV3 library, all cases and dtypes.
    Step("plugins", 560, "plugins:check_v3"),
    Step("pytest", 300, "commands:check_pytest"),  # tests/gpu, without those of engines
    # Contract and kernels of the IPluginV2 library, all cases and dtypes.
    Step("plugins-v2", 560, "plugins:check_v2"),
)
ENGINE_STEPS = (
    Step("stress", 560, "stress:check"),  # many sessions of several engines at once, in processes and threads
    Step("planted", 560, "commands:check_planted"),  # planted errors, each of which has to be found
    # Networks at all ends of their shapes, judged by references of the bundle.
    Step("networks", 560, "networks:check"),
    Step("operators", 560, "plugin_engines:check"),  # every operator's cases inside engines, by every route
    # compute-sanitizer's memcheck on all small cases inside engines.
    Step("engine-sanitizer", 560, "sanitizer:check_engines"),
    # Layers that TensorRT fuses: a product with what stands behind it.
    Step("layers", 300, "fused_layers:check"),
    Step("sums", 120, "product_sums:check"),  # in what type products are summed, layer by layer
    Step("engine-pytest", 360, "commands:check_engine_pytest"),  # tests/gpu/engines
    Step("onnx-tests", 420, "node_tests:check"),  # ONNX's backend node tests against ONNX's outputs
    Step("graphs", 240, "drawn.random_graphs:check"),  # random graphs against onnxruntime
    # The examples of every rewrite rule against the original's outputs.
    Step("rules", 360, "rule_examples:check"),
)
NOT_RUN = "not run"
ALL = {step.name: step for step in (*STEPS, *ENGINE_STEPS)}


def main() -> int:
    arguments = parse()
    if arguments.run_kernels:
        from gpucheck.kernels import run_kernels

        return 1 if run_kernels(arguments.run_kernels, arguments.operators, arguments.folder) else 0
    if arguments.step:
        run_step(arguments)
        return 0
    return run_all(arguments)


def parse() -> argparse.Namespace:
    parser = gpu_parser(__doc__)
    add_seconds(parser, 560.0)
    add_resume(parser)
    parser.add_argument("--engines", action="store_true", help="the steps that run engines, and no others")
    parser.add_argument(
        "--parallel", type=int, default=5, help="steps at once (default %(default)d; GPU memory: 35 GB)"
    )
    parser.add_argument("--only", nargs="+", choices=list(ALL), help="these steps and no other")
    parser.add_argument(
        "--run-kernels",
        choices=("small", "large", "wide", "overflow", "unwritten", "engines"),
        help="for compute-sanitizer",
    )
    parser.add_argument(
        "--operators",
        nargs="+",
        metavar="NAME",
        help="check these operators only, in the steps that take them one by one",
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
    name = "engines.json" if arguments.engines else "check.json"
    try:
        record = gpu_record(arguments, name, libraries=[plugin_library(), plugin_library_v2()])
    except TrtsmithError as error:
        print(error.problems[0], file=sys.stderr)
        return error.exit_code
    arguments.output = record.path
    steps = chosen_steps(arguments)
    gpus = visible_gpus(os.environ)
    done = passed_before(record.path, record.head) if arguments.resume else {}
    lock = threading.Lock()
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:

        def run(step: Step) -> None:
            gpu = gpus[steps.index(step) % len(gpus)]
            result = _boxed(step, clock, Path(folder), arguments, gpu)
            with lock:
                done[step.name] = result
                ordered = [done[step.name] for step in steps if step.name in done]
                left = len(steps) - sum(result.verdict != NOT_RUN for result in ordered)
                head = record.head | {"passed": _passed(ordered, steps)} | ({"left": left} if left else {})
                write_record(arguments.output, head, ordered)
            print(f"{step.name}: {result.verdict}, {result.seconds:.1f} s", file=sys.stderr, flush=True)

        left = [step for step in steps if step != FIRST and step.name not in done]
        if FIRST in steps and (left or FIRST.name not in done):  # what it leaves the others read
            run(FIRST)
        with ThreadPoolExecutor(max(arguments.parallel, 1)) as pool:
            list(pool.map(run, left))
    results = [done[step.name] for step in steps]
    print(table(results))
    passed = _passed(results, steps)
    said = "passed" if passed else "FAILED"
    print(f"{said} on {record.head['gpu']}; recorded in {arguments.output.name}")
    return 0 if passed else 1


def _boxed(step: Step, clock: Clock, folder: Path, arguments: argparse.Namespace, gpu: str) -> StepResult:
    limit_s = clock.box(step.limit_s)
    if limit_s is None:
        return StepResult(step.name, NOT_RUN, "no time was left", failures=["no time was left"])
    notes = folder / f"{step.name}.jsonl"
    # Several processes share the cores; unbounded, each would start a BLAS thread for every one.
    threads = max((os.cpu_count() or 1) // 4, 1) if step is not FIRST else 1
    command = ["env", f"OMP_NUM_THREADS={threads}", f"OPENBLAS_NUM_THREADS={threads}"]
    command += [f"CUDA_VISIBLE_DEVICES={gpu}", sys.executable, str(Path(__file__).resolve()), *sys.argv[1:]]
    command += ["--step", step.name, "--notes", str(notes), "--folder", str(folder)]
    # The step's own children end before it does, so that it can still say what they found.
    command += ["--limit", str(max(limit_s - 10, 1)), "--output", str(arguments.output)]
    ended = run_boxed(command, limit_s, ROOT)
    result = read_notes(notes, step.name, ended.problem)
    result.seconds = ended.seconds
    return result


def _passed(results: list[StepResult], steps: list[Step]) -> bool:
    """Whether all steps ran and passed."""
    return len(results) == len(steps) and all(result.verdict == "pass" for result in results)


def run_step(arguments: argparse.Namespace) -> None:
    """Runs a step in the child. Only steps that need PyTorch import it."""
    step, notes, bundle = ALL[arguments.step], Notes(arguments.notes), arguments.bundle
    if step in ENGINE_STEPS:
        from gpucheck.engines import missing

        if missing(notes):
            return
    given = {
        "folder": arguments.folder,
        "limit_s": arguments.limit,
        "notes": notes,
        "ops": [op for op in OPS if not arguments.operators or op.name in arguments.operators],
        "bundle": bundle,
        "models": bundle and model_folder(bundle),
        "names": arguments.networks,
        "kept": arguments.output.with_name(f"{arguments.output.stem}_outputs"),
    }
    module, _, function = step.check.partition(":")
    check = getattr(importlib.import_module(f"gpucheck.{module}"), function)
    check(**{name: given[name] for name in inspect.signature(check).parameters})


if __name__ == "__main__":
    sys.exit(main())
