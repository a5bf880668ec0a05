"""Sets the tolerance of outputs: twice the effect of the engine's precision on that network."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

import numpy as np
import onnx

from trtsmith.converter.graph.walk import all_graphs
from trtsmith.converter.model.ort_kernels import quantised
from trtsmith.converter.verify.findings import Finding, finding
from trtsmith.converter.verify.noise import SLICE_UNITS, Noise, excess
from trtsmith.converter.verify.rounding import FP16_SUMS
from trtsmith.converter.verify.tolerances import TOLERANCE, Tolerances
from trtsmith.importers.opdef import PLUGIN_NAMESPACE, Arrays, OpDef
from trtsmith.importers.registry import by_name, find_aliases, normalise_domain

FACTOR = 2.0
"""At most twice the error of the same computation done by a framework in that precision (flash-attention's rule)."""

_AT_LEAST: Mapping[str, str] = {
    "fp32": "float32",
    "tf32": "float16",
    "fp16": "float16",
    FP16_SUMS: "float16",
    "bf16": "bfloat16",
}
"""By precision, the type whose TOLERANCE is the least that is allowed: a network of one node has two roundings too, and
chance makes the error of an output of few elements small. TF32 has float16's significand of 11 bits."""

CHANCE = 2.0
"""By how much more an output of one number may be off, in proportion to FACTOR, and by 1 / sqrt(n) of that one of n: whether
the errors of few numbers add up or cancel is chance, in the engine as in onnxruntime. Of 10,000 numbers it is 2 % more."""

MOST = 0.5
"""The most that can be allowed: where rounding alone changes half of an output, zeros would agree with it as well."""

PROVES = 0.05
"""The most that may be allowed where an output is to agree: one that is off by more, as rounding is, proves nothing."""

EXAGGERATED = 16.0
"""How much more than a rounding of float32 changes what verify.rounding makes of a graph in "fp32" (20 of 24 bits).

Elements are judged by all of it: sums in another order round many times. centernet_dcn's rewritten graph takes 1.6 times the
bounds that a quarter of it gives, and nothing is wrong there. Norms are judged by that fraction of it, except those of a
quantised network: there steps flip, and later ones with them, so that rounding to 23 bits changes as much of the outputs as
to 20 does (0.04 to 0.08 of a DistilBERT's, 0.7 to 1.0 of a T5's)."""

FINE = 2.0**-20
"""Unit of the bounds of float32 elements: only larger errors are looked into. Right runs of benchmarks/judge.json take up to
half of these bounds."""

QUANTIZED: Mapping[str, float] = {"int8": 0.1, "fp8": 0.1}
"""Allowed in 8 bits where there is the original alone: no rounding of its values stands for what calibrated scales cost.
Three layers lost 0.005 to 0.02 in int8 and 0.06 in fp8; a wrong scale or axis costs several tenths. Whole numbers have to be
equal."""

_QUANTUM: Mapping[str, float] = {"fp16": 2.0**-24}
"""By precision, the smallest number above zero where it is large enough to be seen."""

_SIGMOID = 2.0**-22
"""By how much onnxruntime's own Sigmoid is off near zero: up to 1.5e-7 where it is 3e-4, measured with 1.31 on x86-64."""

WORDS: Mapping[str, str] = {
    "fp32": "float32, without TF32",
    "tf32": "TF32, in which TensorRT computes float32 networks on Ampere and later GPUs",
    "fp16": "float16",
    FP16_SUMS: "float16, in which TensorRT-RTX sums products, too",
    "bf16": "bfloat16",
}
"""What each precision without scales is called."""


@dataclass(frozen=True)
class Allowance:
    """The allowed differences by output name: a ratio of norms, or a share of whole numbers.

    noise: what rounding does to each element of a float output, by name; none in 8 bits.
    amplified: outputs that may differ by more than twice the least, as the network amplifies rounding; by name, what
        rounding changes of them.
    left: outputs of which agreement would prove nothing; by name, why. Those that are DOUBTFUL may differ by more than
        PROVES: they can disagree. Others are not compared. Tolerances of the user settle what rounding decides.
    """

    allowed: Mapping[str, float]
    left: Mapping[str, Finding] = field(default_factory=dict)
    noise: Mapping[str, Noise] = field(default_factory=dict)
    amplified: Mapping[str, float] = field(default_factory=dict)

    def excluded(self, tolerances: Tolerances | None) -> dict[str, Finding]:
        """Returns outputs that are not compared, each with the reason."""
        return {n: why for n, why in self._unsettled(tolerances).items() if why.kind not in DOUBTFUL}

    def unproven(self, tolerances: Tolerances | None) -> dict[str, Finding]:
        """Returns outputs that may disagree and whose agreement proves nothing, each with the reason."""
        return {n: why for n, why in self._unsettled(tolerances).items() if why.kind in DOUBTFUL}

    def only(self, outputs: Collection[str]) -> Allowance:
        """Keeps the allowance for these outputs; others are compared as if rounding did not change them."""
        left = {n: why for n, why in self.left.items() if n in outputs}
        return replace(
            self, left=left, amplified={n: changed for n, changed in self.amplified.items() if n in outputs}
        )

    def _unsettled(self, tolerances: Tolerances | None) -> dict[str, Finding]:
        """The outputs left, but for those that a tolerance of the user's settles."""
        given = {n for n in self.left if tolerances is not None and tolerances.of(n) is not None}
        return {n: why for n, why in self.left.items() if n not in given or why.kind not in OF_ROUNDING}


AMPLIFIED, FEW_ROWS, AS_BY_ROUNDING = "amplified", "few rows match", "off as by rounding"
DOUBTFUL = (AMPLIFIED, FEW_ROWS, AS_BY_ROUNDING)
"""Kinds of findings on outputs that may differ by so much that agreement proves nothing."""

ILL_CONDITIONED, ROWS_LOST = "ill-conditioned", "rows lost"
OF_ROUNDING = (*DOUBTFUL, ILL_CONDITIONED, ROWS_LOST)
"""Kinds of findings that a tolerance of the user's settles."""


@dataclass(frozen=True)
class Limits:
    """Allowed differences by output name for reasons other than rounding.

    at_least: what is allowed in any case. changes: what each element may differ by, as measured like rounding. excluded: why
    an output is not compared.
    """

    at_least: Mapping[str, float] = field(default_factory=dict)
    changes: Arrays = field(default_factory=dict)
    excluded: Mapping[str, Finding] = field(default_factory=dict)


NO_LIMITS = Limits()


def allowance(
    plain: Arrays,
    rounded: Sequence[Arrays],
    precision: str,
    proto: onnx.ModelProto,
    limits: Limits = NO_LIMITS,
) -> Allowance:
    """Derives the allowed differences from the original's outputs with exact and with rounded values.

    The least that is allowed is TOLERANCE, and the tolerance of the custom operators that the model has.
    rounded: what rounding makes of the outputs, once or going several ways, of which the most that any changes counts; empty
    where nothing could be run: the least then is all.
    """
    floors = limits.at_least
    left = moved_by(plain, rounded[0], precision) if rounded else {}
    allowed, noise, amplified = {}, {}, {}
    quantum, steps = _quantum(precision, proto), quantised(proto)
    for name, value in plain.items():
        dtype = str(value.dtype)
        if name in left:
            continue
        others = [one[name] for one in rounded if one[name].shape == value.shape]
        changed = max((changed_by(value, other) for other in others), default=0.0)
        changed /= EXAGGERATED if precision == "fp32" and not steps else 1
        if value.dtype.kind in "iub":
            allowed[name] = max(floors.get(name, 0.0), FACTOR * changed)
        elif dtype in TOLERANCE:
            least = _least(dtype, precision, proto)
            allowed[name] = max(floors.get(name, 0.0), least, _factor(value.size) * changed)
            if allowed[name] > 2 * least and changed:
                amplified[name] = changed
            if precision not in QUANTIZED:
                unit = FINE if least == TOLERANCE["float32"] and precision == "fp32" else least / SLICE_UNITS
                smallest = max(quantum, _QUANTUM["fp16"]) if dtype == "float16" else quantum
                found = _noise(unit, smallest, value, others, limits.changes.get(name))
                noise[name] = found.anywhere(value) if steps else found
        most, figures = allowed.get(name, 0.0), {"type": type_of(precision), "quantised": bool(steps)}
        if PROVES < most <= MOST and precision not in QUANTIZED:
            left[name] = Finding(AMPLIFIED, name, "", figures | {"changed": changed, "allowed": most})
        elif most > MOST:
            allowed.pop(name)
            left[name] = Finding(ILL_CONDITIONED, name, "", figures | {"changed": changed})
    return Allowance(allowed, left, noise, amplified)


def _noise(
    unit: float, quantum: float, value: np.ndarray, others: Sequence[np.ndarray], also: np.ndarray | None
) -> Noise:
    """What rounding does to an output.

    Where a few elements change much and each time others, as at edges of a segmentation or where characters are told apart,
    a right run is beyond the bounds that other right runs give. Then the bounds are as many times wider, by FACTOR.
    """
    found = Noise(unit, quantum, _change(value, others, also))
    furthest = 0.0
    for i in range(len(others) if len(others) > 1 and value.size else 0):
        known = Noise(unit, quantum, _change(value, [*others[:i], *others[i + 1 :]], also))
        with np.errstate(invalid="ignore"):  # infinities on both sides
            apart = others[i].astype(np.float64) - value
        off = np.abs(np.nan_to_num(apart, nan=0.0, posinf=0.0, neginf=0.0))
        furthest = max(furthest, excess(np.nan_to_num(value.astype(np.float64)), off, known).used)
    return found.times(FACTOR * furthest) if 1 < furthest < math.inf else found


def _change(value: np.ndarray, others: Sequence[np.ndarray], also: np.ndarray | None) -> np.ndarray | None:
    """What rounding, or another reason, changes of each element."""
    with np.errstate(invalid="ignore", over="ignore"):  # infinities on both sides
        changes = [np.abs(other.astype(np.float32) - value.astype(np.float32)) for other in others]
    changes += [] if also is None else [also]
    return reduce(np.maximum, changes) if changes else None


def _quantum(precision: str, proto: onnx.ModelProto) -> float:
    """What any element may be off by, however small it is."""
    kinds = {node.op_type for graph in all_graphs(proto.graph) for node in graph.node}
    return max(_SIGMOID if "Sigmoid" in kinds else 0.0, _QUANTUM.get(type_of(precision), 0.0))


def _factor(elements: int) -> float:
    """FACTOR, adjusted for an output of this many numbers."""
    return FACTOR * (1 + CHANCE / math.sqrt(max(elements, 1)))


def moved_by(plain: Arrays, rounded: Arrays, precision: str) -> dict[str, Finding]:
    """Finds outputs whose shape changes with the precision; by name, why they are not compared."""
    return {
        name: finding(
            "reshaped",
            name,
            shape=list(value.shape),
            other=list(rounded[name].shape),
            type=type_of(precision),
        )
        for name, value in plain.items()
        if rounded[name].shape != value.shape
    }


def type_of(precision: str) -> str:
    """Returns the type that values are rounded to, as the flag names it."""
    return "fp16" if precision == FP16_SUMS else precision


def in_words(precision: str, measured: bool | None) -> str:
    """Says in words what the default tolerance assumes. measured: whether rounding was; None if no output needed it."""
    if precision in QUANTIZED:
        return (
            f"the engine is assumed to compute in {precision}: outputs may differ by {QUANTIZED[precision]:g}"
        )
    if precision == "fp32":
        return f"the engine is assumed to compute in {WORDS['fp32']}"
    least = TOLERANCE[_AT_LEAST[precision]]
    what = f"the engine is assumed to compute in {WORDS[precision]}: outputs may differ by "
    if measured is None:
        return f"{what}{least:g}"
    if not measured:
        return f"{what}{least:g}, as onnxruntime did not run the model in that precision"
    return f"{what}twice what that rounding changes in onnxruntime (more where they are few numbers), or {least:g}"


def _least(dtype: str, precision: str, proto: onnx.ModelProto) -> float:
    custom = (op.tolerance.get(dtype, 0.0) for op in _custom_operators(proto))
    least = QUANTIZED[precision] if precision in QUANTIZED else TOLERANCE[_AT_LEAST[precision]]
    return max(TOLERANCE[dtype], least, *custom)


def _custom_operators(proto: onnx.ModelProto) -> list[OpDef]:
    kinds = {
        (normalise_domain(node.domain), node.op_type)
        for graph in all_graphs(proto.graph)
        for node in graph.node
    }
    ours = [
        by_name()[op_type] for domain, op_type in kinds if domain == PLUGIN_NAMESPACE and op_type in by_name()
    ]
    return [*ours, *(op for kind in sorted(kinds) for op, _ in find_aliases(*kind))]


def changed_by(expected: np.ndarray, actual: np.ndarray | None) -> float:
    """Measures a change: a share of whole numbers, or a ratio of norms where both sides are finite. actual: None means no
    change.
    """
    if actual is None or not expected.size:
        return 0.0
    if expected.dtype.kind in "iub":
        return float(np.mean(actual != expected))
    e, a = expected.astype(np.float64), actual.astype(np.float64)
    finite = np.isfinite(e) & np.isfinite(a)
    norm = float(np.linalg.norm(e[finite]))
    return float(np.linalg.norm(a[finite] - e[finite])) / norm if norm else 0.0
