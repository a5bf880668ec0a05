"""Runs many sessions of several engines at once, in processes and in threads, and compares every output.

Engines have plugins in them or convolutions of several kinds, static and ranging sizes; sessions replay CUDA graphs or do
not; inputs are numpy's, PyTorch's and CuPy's. After each round one session in ten is made anew while the others run. The
networks run in two forms: as trtsmith converts them, where each output has to be right, and as TensorRT imports them, which
shows that the step finds the fault that the rule depthwise-filters writes around.
"""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from gpucheck.engines import check_built
from gpucheck.plugin_engines import built
from gpucheck.plugin_trials import Arrays, TrialComparison, groups, trials_of
from gpucheck.record import Notes
from harness.jobs import run_jobs
from onnxcoverage.builder import GPU_TARGET, Sizes, build_engine
from trtsmith.converter.engine.libraries import plugin_library
from trtsmith.converter.engine.runtime.runner import Runner
from trtsmith.converter.engine.runtime.session import Session
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.save import save_model
from trtsmith.converter.plugin.cases import type_choices
from trtsmith.converter.rewrite.rewrite import rewrite
from trtsmith.converter.rewrite.target import RTX
from trtsmith.converter.verify.baseline import Arithmetic, Baseline
from trtsmith.converter.verify.candidate_judge import judge_outputs
from trtsmith.converter.verify.sets import InputSet
from trtsmith.importers.registry import OPS, by_name

CONVERTED = "as trtsmith converts it"
IMPORTED = "as TensorRT imports it"
FORMS = (CONVERTED, IMPORTED)

PROCESSES = "processes"
THREADS = "threads"

WORKERS = 12
ROUNDS = 6
RUNS = 7
"""Of each session in each round: with ten sessions a worker, 10,080 runs in all of each form."""

OPERATORS = tuple(op.name for op in OPS if not op.data_dependent)[:6:2]
"""Every other one of the first: those beside each other are of one family."""

MOST_CASES = 4
"""Of an operator. Each size costs every session a compilation."""

BATCHES = (1, 2, 4)
ARITHMETIC = Arithmetic("tf32")

TIMEOUT_S = 280.0


@dataclass(frozen=True)
class StressCase:
    """Inputs, and a function that finds the fault in their outputs: "" if there is none."""

    feeds: Arrays
    fault: Callable[[Arrays], str]


@dataclass(frozen=True)
class StressEngine:
    """An engine with its cases."""

    name: str
    plan: Path
    cases: Sequence[StressCase]


def check(folder: Path, limit_s: float, notes: Notes) -> None:
    """Runs the step. A row for each form and engine, in processes or threads; fails for any wrong output of a converted
    network.
    """
    end = time.monotonic() + limit_s
    wrong: Counter[str] = Counter()
    runs: Counter[str] = Counter()
    for jobs in (
        [f"build:{form}:0" for form in FORMS],
        *([f"{PROCESSES}:{form}:{number}" for number in range(WORKERS)] for form in FORMS),
        *([f"{THREADS}:{form}:0"] for form in FORMS),
    ):
        counts: dict[str, Counter[str]] = {}
        failures: list[str] = []
        for job, finding in run_jobs(__name__, deque(jobs), WORKERS, TIMEOUT_S, folder, end):
            for name, found in finding.found.get("engines", {}).items():
                counts.setdefault(name, Counter()).update(found)
            failures += finding.found.get("failures", [])
            failures += [f"{job}: {finding.died}"] if finding.died else []
        where, form, _ = jobs[0].split(":")
        for name, count in counts.items():
            notes.row(where=where, form=form, engine=name, **count)
            runs[form] += count["runs"]
            wrong[form] += count["wrong"]
        for text in failures if form == CONVERTED or where == "build" else []:
            notes.failure(text)
    notes.summary(
        f"{wrong[CONVERTED]} wrong of {runs[CONVERTED]:,} runs; "
        f"{IMPORTED}, without the rule depthwise-filters: {wrong[IMPORTED]} of {runs[IMPORTED]:,}"
    )


def work(job: str, folder: Path) -> dict[str, Any]:
    """Runs a job in a worker: "build:FORM:0", "processes:FORM:NUMBER" or "threads:FORM:0"."""
    where, form, number = job.split(":")
    if where == "build":
        build_plans(form, folder)
        return {}
    subjects = list(subjects_of(form, folder))
    if where == PROCESSES:
        return run_worker(subjects, int(number), opener=partial(_open, {}))
    shared: dict[Path, Runner] = {}
    for subject in subjects:
        _open(shared, subject.plan)
    with ThreadPoolExecutor(WORKERS) as pool:
        done = list(pool.map(partial(run_worker, subjects, opener=partial(_open, shared)), range(WORKERS)))
    engines: dict[str, Counter[str]] = {subject.name: Counter() for subject in subjects}
    for found in done:
        for name, count in found["engines"].items():
            engines[name].update(count)
    return {"engines": engines, "failures": [text for found in done for text in found["failures"]][:10]}


def _open(runners: dict[Path, Runner], plan: Path) -> Runner:
    """This process's runner of a plan, which its threads share."""
    if plan not in runners:
        runners[plan] = open_runner(plan)
    return runners[plan]


def open_runner(plan: Path) -> Runner:
    return Runner.open(plan, plugins=[plugin_library()], flavour="tensorrt_rtx")


def run_worker(
    subjects: Sequence[StressEngine], seed: int, *, opener: Callable[[Path], Runner]
) -> dict[str, Any]:
    """Runs two sessions of each engine, one with CUDA graphs, in turns, on inputs of every library."""
    rng = np.random.default_rng(seed)
    libraries = (lambda array: array, _of_torch, _of_cupy)
    plan = [(subject, graph) for subject in subjects for graph in (False, True)]
    sessions: list[Session] = [opener(subject.plan).session(cuda_graph=graph) for subject, graph in plan]
    engines = {subject.name: Counter(runs=0, wrong=0) for subject in subjects}
    failures = []
    for turn in range(ROUNDS):
        for index in rng.permutation(len(plan)):
            subject, graph = plan[index]
            for _ in range(RUNS):
                case = subject.cases[rng.integers(len(subject.cases))]
                library = libraries[rng.integers(len(libraries))]
                feeds = {name: library(array) for name, array in case.feeds.items()}
                outputs = sessions[index].infer(feeds, synchronise=bool(rng.integers(2)))
                fault = case.fault({name: tensor.numpy() for name, tensor in outputs.items()})
                engines[subject.name].update(runs=1, wrong=int(bool(fault)))
                failures += [f"{subject.name}{', CUDA graph' if graph else ''}: {fault}"] if fault else []
        anew = turn % len(plan)
        subject, graph = plan[anew]
        sessions[anew] = open_runner(subject.plan).session(cuda_graph=graph)
    return {"engines": {name: dict(count) for name, count in engines.items()}, "failures": failures[:3]}


def _of_torch(array: np.ndarray) -> Any:
    import torch

    return torch.from_numpy(np.array(array, order="C")).cuda()


def _of_cupy(array: np.ndarray) -> Any:
    import cupy

    return cupy.array(array, order="C")


def build_plans(form: str, folder: Path) -> None:
    """Writes one form's engines into the folder."""
    path = folder / f"depthwise-{os.getpid()}.onnx"
    onnx.save(depthwise_network(), path)
    if form == CONVERTED:
        rewritten = rewrite(load_model(path), RTX).model
        path = path.with_name(f"rewritten-{path.name}")
        save_model(rewritten, path)
    least, usual, most = (_images(batch)["x"].shape for batch in BATCHES)
    for name, sizes in (("ranging", Sizes((least, usual, most))), ("static", Sizes((usual,) * 3))):
        plan = check_built(build_engine(path, {"x": sizes}, target=GPU_TARGET))
        _plan(folder, form, name).write_bytes(plan)
    for name in OPERATORS:
        trials = _trials(name)
        _plan(folder, form, name).write_bytes(built(trials, folder, dynamic=True))


def subjects_of(form: str, folder: Path) -> Iterator[StressEngine]:
    """The engines of `build_plans`, with inputs and correct outputs."""
    path = folder / f"depthwise-{os.getpid()}.onnx"
    onnx.save(depthwise_network(), path)
    model = load_model(path)
    cases = []
    for batch in BATCHES:
        feeds = _images(batch)
        baseline = Baseline(model, (InputSet("", feeds),))
        baseline.rounded(ARITHMETIC)  # before the engines run
        cases.append(StressCase(feeds, partial(_image_fault, baseline)))
    yield StressEngine("convolutions, ranging sizes", _plan(folder, form, "ranging"), cases)
    yield StressEngine("convolutions, static sizes", _plan(folder, form, "static"), cases[1:2])
    for name in OPERATORS:
        trials = _trials(name)
        comparison = TrialComparison(trials[0].op, trials[0].types)
        cases = [StressCase(trial.feeds, partial(comparison.fault, trial)) for trial in trials]
        yield StressEngine(name, _plan(folder, form, name), cases)


def _plan(folder: Path, form: str, name: str) -> Path:
    return folder / f"stress-{FORMS.index(form)}-{name}.plan"


def _trials(name: str) -> Any:
    op = by_name()[name]
    return max(groups(tuple(trials_of(op, type_choices(op)[0]))), key=len)[:MOST_CASES]


def _images(batch: int) -> Arrays:
    return {"x": np.random.default_rng(batch).standard_normal((batch, 16, 24, 24)).astype(np.float32)}


def _image_fault(baseline: Baseline, outputs: Arrays) -> str:
    """The fault in the images of one batch."""
    verdict = judge_outputs(baseline, ARITHMETIC, [outputs])
    return "" if verdict.passed else verdict.reason


def depthwise_network() -> onnx.ModelProto:
    """Convolutions as in mobile networks: depthwise ones of several filter sizes between pointwise ones."""
    rng = np.random.default_rng(1)
    nodes, weights = [], []
    value, channels = "x", 16
    for number, (taps, depthwise) in enumerate(
        [(3, False), (5, True), (1, False), (3, True), (1, False), (7, True), (1, False), (5, True)]
    ):
        shape = (32, 1 if depthwise else channels, taps, taps)
        kernel = rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))
        weights += [
            numpy_helper.from_array(kernel.astype(np.float32), f"k{number}"),
            numpy_helper.from_array(rng.standard_normal(32).astype(np.float32), f"b{number}"),
        ]
        attributes: dict[str, Any] = {"group": 32 if depthwise else 1, "pads": [taps // 2] * 4}
        names = [value, f"k{number}", f"b{number}"]
        nodes.append(helper.make_node("Conv", names, [f"c{number}"], f"conv{number}", **attributes))
        value, channels = f"r{number}", 32
        nodes.append(helper.make_node("Relu", [f"c{number}"], [value]))
    nodes[-1].output[0] = "y"
    graph = helper.make_graph(
        nodes,
        "depthwise",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 16, 24, 24])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 32, 24, 24])],
        weights,
    )
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
