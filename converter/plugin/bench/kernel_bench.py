"""Times trtsmith's kernels against other implementations: `trtsmith plugin bench`.

The loop over operators, cases and dtypes, and the document that it makes. What touches the GPU is in kernel_torch.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.progress import notes_of
from trtsmith.converter.plugin.cases import SEED
from trtsmith.converter.plugin.host.plugin_values import array_dtype
from trtsmith.importers.opdef import TYPE_VARIABLES, Arrays, Case, OpDef, Shapes, Work
from trtsmith.importers.problem import Problem
from trtsmith.importers.registry import operators

FLUSHES = 3
"""How many times the L2 cache is overwritten between two runs on the same memory."""

MOST_SETS = 512

EXACT_ERROR = 1e-5
"""Relative error that tells exact float32 products (below 5e-6 in every case) from those of TF32 (near 3e-4)."""


@dataclass(frozen=True)
class Times:
    """Statistics of single runs, in microseconds."""

    median: float
    minimum: float
    p10: float
    p90: float
    count: int

    @classmethod
    def of(cls, microseconds: Sequence[float]) -> Times:
        """Computes the statistics. Raises ValueError for no runs."""
        if not microseconds:
            raise ValueError("no times")
        p10, median, p90 = (float(p) for p in np.percentile(microseconds, (10, 50, 90)))
        return cls(median, min(microseconds), p10, p90, len(microseconds))


@dataclass(frozen=True)
class Measured:
    """The measurement of one candidate. error: ||out - ref|| / ||ref|| against float64; None if it computes something else.

    workspace: bytes; None where the candidate allocates by itself.
    """

    times: Times
    error: float | None
    workspace: int | None = None


@dataclass(frozen=True)
class Unavailable:
    """The reason why a baseline was not measured."""

    reason: str


@dataclass(frozen=True)
class Ceilings:
    """The best figures of the machine in this run.

    copy:     bytes/s, read and written together.
    products: FLOP/s of a large matrix product, by dtype and "tf32".
    empty:    microseconds that the two events around no work at all are apart; in every time, and taken off none.
    """

    copy: float
    products: Mapping[str, float]
    empty: float

    def to_json(self) -> dict[str, Any]:
        return {
            "copy_gb_s": round(self.copy / 1e9, 1),
            "matmul_tflop_s": {name: round(rate / 1e12, 1) for name, rate in self.products.items()},
            "empty_us": digits(self.empty),
        }


@dataclass(frozen=True)
class Limit:
    """The least time, in microseconds, that the machine needs. bytes: every tensor moved once. arithmetic: the longer of the
    operations on ordinary units, in float32, and the products on matrix units; they run side by side.
    """

    bytes: float
    arithmetic: float

    @property
    def binding(self) -> str:
        return "bytes" if self.bytes >= self.arithmetic else "arithmetic"

    @property
    def floor(self) -> float:
        return max(self.bytes, self.arithmetic)


def limit(moved: int, work: Work, precision: str, ceilings: Ceilings) -> Limit:
    """Computes the limit. precision: a dtype, or "tf32" for products of float32 rounded to it."""
    arithmetic = max(
        work.flops / ceilings.products["float32"], work.matrix_flops / ceilings.products[precision]
    )
    return Limit(moved / ceilings.copy * 1e6, arithmetic * 1e6)


def moved_bytes(op: OpDef, shapes: Shapes, sizes: Mapping[str, int]) -> int:
    """Counts every input read once and every output written once. sizes: bytes of an element by type variable."""
    return sum(
        math.prod(shapes[port.name]) * sizes[port.type]
        for port in (*op.inputs, *op.outputs)
        if port.name in shapes
    )


def rotation_sets(set_bytes: int, l2_bytes: int, memory: int) -> int:
    """Counts the sets of tensors to take in turn, so that each finds its memory out of the L2 cache.

    At least 2 and at most MOST_SETS, and no more than fit into `memory` bytes.
    """
    wanted = 1 + math.ceil(FLUSHES * l2_bytes / max(set_bytes, 1))
    return max(2, min(wanted, MOST_SETS, memory // max(set_bytes, 1)))


def precision_of(dtype: str, work: Work, error: float | None) -> str:
    """Deduces the arithmetic from a kernel's error: "tf32" for float32 products that are not exact."""
    rounded = error is not None and error > EXACT_ERROR
    return "tf32" if dtype == "float32" and work.matrix_flops and rounded else dtype


def row(
    case: str,
    dtype: str,
    moved: int,
    work: Work,
    sets: int,
    tolerance: float,
    ceilings: Ceilings,
    ours: Measured,
    baselines: Mapping[str, Measured | Unavailable],
) -> dict[str, Any]:
    """Makes one line of the report, as it is written to JSON."""
    precision = precision_of(dtype, work, ours.error)
    bound = limit(moved, work, precision, ceilings)
    seconds = ours.times.median / 1e6
    return {
        "case": case,
        "dtype": dtype,
        "precision": precision,
        "bytes": moved,
        "flops": work.flops,
        "matrix_flops": work.matrix_flops,
        "sets": sets,
        "limit_us": {"bytes": digits(bound.bytes), "arithmetic": digits(bound.arithmetic)},
        "binding": bound.binding,
        "ours": {
            **measured_json(ours),
            "gb_s": digits(moved / seconds / 1e9),
            "tflop_s": digits((work.flops + work.matrix_flops) / seconds / 1e12),
            "of_limit": digits(bound.floor / ours.times.median),
            "tolerance": tolerance,
            "right": ours.error is not None and ours.error <= max(tolerance, 1e-3 * (precision == "tf32")),
        },
        "baselines": {
            name: {"unavailable": baseline.reason}
            if isinstance(baseline, Unavailable)
            else measured_json(baseline) | {"ratio": digits(baseline.times.median / ours.times.median)}
            for name, baseline in baselines.items()
        },
    }


def measured_json(measured: Measured) -> dict[str, Any]:
    """Returns times in microseconds, error and workspace, as they are written to JSON."""
    times = {f"{name}_us" if name != "count" else name: v for name, v in asdict(measured.times).items()}
    found: dict[str, Any] = {name: digits(value) for name, value in times.items()}
    found["error"] = None if measured.error is None else digits(measured.error)
    if measured.workspace is not None:
        found["workspace"] = measured.workspace
    return found


def digits(value: float) -> float:
    """Rounds to four digits: no more is reproducible. JSON has no infinity; an infinite error becomes 1e308."""
    if isinstance(value, int):
        return value
    return float(f"{min(value, 1e308):.4g}") if not math.isnan(value) else 1e308


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
    """The things to time. warm: one set of tensors, which stays in the GPU's cache as far as it fits."""

    ops: tuple[tuple[OpDef, tuple[Case, ...]], ...]
    dtypes: tuple[str, ...]
    baselines: tuple[str, ...]
    count: int
    warm: bool = False


class KernelMachine(Protocol):
    """A machine to measure on (kernel_torch.py). memory: bytes that may be used for tensors."""

    l2_bytes: int
    memory: int

    def ceilings(self) -> Ceilings: ...

    def subject(self, op: OpDef, case: Case, generated: Arrays, dtype: str, sets: int) -> Any: ...

    def baselines(
        self, subject: Any, names: Sequence[str], count: int
    ) -> Mapping[str, Measured | Unavailable]:
        """Measures other implementations of the same, by name."""


def select(
    ops: Sequence[str],
    cases: Sequence[str],
    dtypes: Sequence[str],
    baselines: Sequence[str] | None,
    count: int,
    *,
    warm: bool = False,
) -> TimingPlan:
    """Selects the things to time; empty means all. baselines: None means all. warm: as in TimingPlan.

    Raises UsageError for unknown names and for too few runs.
    """
    timed = {op.name: op for op in operators() if op.benchmarks}
    chosen = [timed[name] for name in dict.fromkeys(ops) if name in timed]
    have = list(dict.fromkeys(case.name for op in chosen for case in op.benchmarks))
    judged = cases if timed.keys() >= set(ops) else ()
    types = TYPE_VARIABLES["T"]
    problems = [
        *(_unknown("operator", name, "OP", timed) for name in ops if name not in timed),
        *(_unknown("case", name, "--case", have) for name in judged if name not in have),
        *(_unknown("dtype", name, "--dtype", types) for name in dtypes if name not in types),
        *(
            _unknown("baseline", name, "--against", BASELINES)
            for name in baselines or ()
            if name not in BASELINES
        ),
    ]
    if count < LEAST_COUNT:
        what = f"{count} runs are too few for a stable median"
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


def _unknown(kind: str, name: str, where: str, known: Collection[str]) -> Problem:
    return Problem(
        f"there is no {kind} {name!r} to time", where, ", ".join(known), f"name one of the {kind}s"
    )


def measure(
    plan: TimingPlan,
    bench: KernelMachine,
    head: Mapping[str, Any],
    save: Callable[[dict[str, Any]], None],
    progress: Callable[[str], None],
) -> dict[str, Any]:
    """Times everything. save: gets the document after each row, so that an interrupted run keeps its rows.

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
    bench: KernelMachine,
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
    """Counts bytes that must be moved and operations that must be done."""
    shapes = {name: tuple(array.shape) for name, array in generated.items()}
    shapes |= op.shape(case.fields, shapes)
    sizes = {variable: array_dtype(name).itemsize for variable, name in op.dtypes(dtype).items()}
    return moved_bytes(op, shapes, sizes), op.work(case.fields, shapes) if op.work else Work(0)


def all_right(document: Mapping[str, Any]) -> bool:
    """Tells whether all our results were within the operator's tolerance."""
    return all(row["ours"]["right"] for rows in document["ops"].values() for row in rows)
