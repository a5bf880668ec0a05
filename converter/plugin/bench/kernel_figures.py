"""Computes the figures of `trtsmith plugin bench`: statistics, limits, rotation. Needs no GPU."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from trtsmith.importers.opdef import OpDef, Shapes, Work

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
        """ValueError for none at all."""
        if not microseconds:
            raise ValueError("no times")
        p10, median, p90 = (float(p) for p in np.percentile(microseconds, (10, 50, 90)))
        return cls(median, min(microseconds), p10, p90, len(microseconds))


@dataclass(frozen=True)
class Measured:
    """What one candidate took. error: ||out - ref|| / ||ref|| against float64; None where it computes something else.

    workspace: bytes; None where the candidate allocates by itself.
    """

    times: Times
    error: float | None
    workspace: int | None = None


@dataclass(frozen=True)
class Unavailable:
    """Why a baseline was not measured."""

    reason: str


@dataclass(frozen=True)
class Ceilings:
    """What the machine reached in this run.

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
    """The least time, in microseconds, that the machine needs. bytes: every tensor moved once. arithmetic: the longer of
    the operations on ordinary units, in float32, and the products on matrix units; they run side by side."""

    bytes: float
    arithmetic: float

    @property
    def binding(self) -> str:
        return "bytes" if self.bytes >= self.arithmetic else "arithmetic"

    @property
    def floor(self) -> float:
        return max(self.bytes, self.arithmetic)


def limit(moved: int, work: Work, precision: str, ceilings: Ceilings) -> Limit:
    """precision: a dtype, or "tf32" for products of float32 rounded to it."""
    arithmetic = max(
        work.flops / ceilings.products["float32"], work.matrix_flops / ceilings.products[precision]
    )
    return Limit(moved / ceilings.copy * 1e6, arithmetic * 1e6)


def moved_bytes(op: OpDef, shapes: Shapes, sizes: Mapping[str, int]) -> int:
    """Every input read once and every output written once. sizes: bytes of an element by type variable."""
    return sum(
        math.prod(shapes[port.name]) * sizes[port.type]
        for port in (*op.inputs, *op.outputs)
        if port.name in shapes
    )


def rotation_sets(set_bytes: int, l2_bytes: int, memory: int) -> int:
    """How many sets of inputs and outputs to take in turn, so that each finds its memory out of the L2 cache.

    At least 2 and at most MOST_SETS, and no more than fit into `memory` bytes.
    """
    wanted = 1 + math.ceil(FLUSHES * l2_bytes / max(set_bytes, 1))
    return max(2, min(wanted, MOST_SETS, memory // max(set_bytes, 1)))


def precision_of(dtype: str, work: Work, error: float | None) -> str:
    """The arithmetic that a kernel's error says it used: "tf32" for float32 products that are not exact."""
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
    """One line of the report, as it is written to JSON."""
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
    """Times in microseconds, error and workspace, as they are written to JSON."""
    times = {f"{name}_us" if name != "count" else name: v for name, v in asdict(measured.times).items()}
    found: dict[str, Any] = {name: digits(value) for name, value in times.items()}
    found["error"] = None if measured.error is None else digits(measured.error)
    if measured.workspace is not None:
        found["workspace"] = measured.workspace
    return found


def digits(value: float) -> float:
    """Four digits: no more is reproducible. JSON has no infinity; what is infinitely wrong reads 1e308."""
    if isinstance(value, int):
        return value
    return float(f"{min(value, 1e308):.4g}") if not math.isnan(value) else 1e308
