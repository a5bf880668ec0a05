"""Times trtsmith's kernels against other implementations: `trtsmith plugin bench`.

The loop over operators, cases and dtypes, and the document that it makes. What touches the GPU is in bench_torch.py,
behind the Bench protocol; the arithmetic is in bench_figures.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from trtsmith.converter.model.errors import UsageError
from trtsmith.converter.model.progress import notes_of
from trtsmith.converter.plugin.bench.kernel_figures import (
    Ceilings,
    Measured,
    Unavailable,
    moved_bytes,
    rotation_sets,
    row,
)
from trtsmith.converter.plugin.cases import SEED
from trtsmith.converter.plugin.host.plugin_values import array_dtype
from trtsmith.importers.opdef import TYPE_VARIABLES, Arrays, Case, OpDef, Work
from trtsmith.importers.problem import Problem
from trtsmith.importers.registry import by_name, operators

FORMAT = 1
"""Version of the document."""

LEAST_COUNT = 30
"""A median of fewer runs says little."""

INDEX_DTYPE = "int64"
"""Of ports of type variable I: PyTorch's own."""

BASELINES: Mapping[str, str] = {
    "eager": "the operator's definition in PyTorch",
    "compile": "the same through torch.compile",
    "torchvision": "torchvision's kernel, where it has one",
    "convolution": "cuDNN's plain convolution of the same size, which does less: a yardstick",
    "expansion": "the expansion into standard operators, on onnxruntime's CUDA provider",
}
"""What we are timed against, by name."""


@dataclass(frozen=True)
class TimingPlan:
    """What to time. warm: one set of tensors, which stays in the GPU's cache as far as it fits."""

    ops: tuple[tuple[OpDef, tuple[Case, ...]], ...]
    dtypes: tuple[str, ...]
    baselines: tuple[str, ...]
    count: int
    warm: bool = False


class KernelSubject(Protocol):
    """One case in one dtype, with its tensors on the GPU."""

    def ours(self, count: int) -> Measured: ...

    def close(self) -> None: ...


SubjectT = TypeVar("SubjectT", bound=KernelSubject)


class Bench(Protocol[SubjectT]):
    """A machine to measure on. memory: bytes that may be used for tensors."""

    l2_bytes: int
    memory: int

    def ceilings(self) -> Ceilings: ...

    def subject(self, op: OpDef, case: Case, generated: Arrays, dtype: str, sets: int) -> SubjectT: ...

    def baselines(
        self, subject: SubjectT, names: Sequence[str], count: int
    ) -> Mapping[str, Measured | Unavailable]:
        """What others take for the same, by name."""


def select(
    ops: Sequence[str],
    cases: Sequence[str],
    dtypes: Sequence[str],
    baselines: Sequence[str] | None,
    count: int,
    *,
    warm: bool = False,
) -> TimingPlan:
    """What the command line asks for; empty means all. baselines: None means all. warm: as in TimingPlan.

    Raises UsageError for unknown names and for too few runs.
    """
    known = by_name()
    problems = [
        _unknown("operator", name, "OP", [op.name for op in operators() if op.benchmarks])
        for name in ops
        if name not in known or not known[name].benchmarks
    ]
    chosen = [known[name] for name in dict.fromkeys(ops) if name in known]
    have = list(dict.fromkeys(case.name for op in chosen for case in op.benchmarks))
    if not problems:
        problems += [_unknown("case", name, "--case", have) for name in cases if name not in have]
    problems += [
        _unknown("dtype", name, "--dtype", TYPE_VARIABLES["T"])
        for name in dtypes
        if name not in TYPE_VARIABLES["T"]
    ]
    problems += [
        _unknown("baseline", name, "--against", BASELINES)
        for name in baselines or ()
        if name not in BASELINES
    ]
    if count < LEAST_COUNT:
        what = f"{count} runs are too few for a median that can be repeated"
        fix = f"--count {LEAST_COUNT}"
        problems.append(Problem(what, f"--count {count}", f"at least {LEAST_COUNT}", fix))
    if problems:
        raise UsageError(problems)
    pairs = tuple((op, tuple(c for c in op.benchmarks if not cases or c.name in cases)) for op in chosen)
    return TimingPlan(
        ops=tuple((op, wanted) for op, wanted in pairs if wanted),
        dtypes=tuple(dict.fromkeys(dtypes)) or TYPE_VARIABLES["T"],
        baselines=tuple(BASELINES)
        if baselines is None
        else tuple(name for name in BASELINES if name in baselines),
        count=count,
        warm=warm,
    )


def _unknown(kind: str, name: str, where: str, known: Any) -> Problem:
    return Problem(
        f"there is no {kind} {name!r} to time", where, ", ".join(known), f"name one of the {kind}s"
    )


def measure(
    plan: TimingPlan,
    bench: Bench[SubjectT],
    head: Mapping[str, Any],
    save: Callable[[dict[str, Any]], None],
    progress: Callable[[str], None],
) -> dict[str, Any]:
    """Time everything. save: gets the document after each row, so that an interrupted run keeps its rows.

    Raises PluginError where our kernel fails.
    """
    progress("measuring what the machine can do")
    ceilings = bench.ceilings()
    document: dict[str, Any] = {
        "format": FORMAT,
        **head,
        "l2_bytes": bench.l2_bytes,
        "index_dtype": INDEX_DTYPE,
        "ceilings": ceilings.to_json(),
        "ops": {op.name: [] for op, _ in plan.ops},
    }
    for op, cases in plan.ops:
        for case in cases:
            progress(f"{op.name}, {case.name}: making inputs")
            generated = case.inputs(np.random.default_rng(SEED))
            for dtype in plan.dtypes:
                made = _row(plan, bench, ceilings, op, case, generated, dtype)
                document["ops"][op.name].append(made)
                save(document)
                notes_of(progress)(f"{op.name}, {case.name}, {dtype}: {made['ours']['median_us']:g} us")
    return document


def _row(
    plan: TimingPlan,
    bench: Bench[SubjectT],
    ceilings: Ceilings,
    op: OpDef,
    case: Case,
    generated: Arrays,
    dtype: str,
) -> dict[str, Any]:
    moved, work = requirements(op, case, generated, dtype)
    sets = 1 if plan.warm else rotation_sets(moved, bench.l2_bytes, bench.memory)
    subject = bench.subject(op, case, generated, dtype, sets)
    try:
        ours = subject.ours(plan.count)
        baselines = bench.baselines(subject, plan.baselines, plan.count)
    finally:
        subject.close()
    tolerance = op.tolerance.get(dtype, 0.0)
    return row(case.name, dtype, moved, work, sets, tolerance, ceilings, ours, baselines)


def requirements(op: OpDef, case: Case, generated: Arrays, dtype: str) -> tuple[int, Work]:
    """Bytes that must be moved and operations that must be done."""
    shapes = {name: tuple(array.shape) for name, array in generated.items()}
    shapes |= op.shape(case.fields, shapes)
    sizes = {variable: array_dtype(name).itemsize for variable, name in op.dtypes(dtype).items()}
    return moved_bytes(op, shapes, sizes), op.work(case.fields, shapes) if op.work else Work(0)


def all_right(document: Mapping[str, Any]) -> bool:
    """Whether every result of ours was within the operator's tolerance."""
    return all(row["ours"]["right"] for rows in document["ops"].values() for row in rows)
