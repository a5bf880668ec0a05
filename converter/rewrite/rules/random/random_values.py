"""Rewrites Bernoulli, Multinomial, and random tensors in types that TensorRT does not draw.

All draw from RandomUniformLike or its kin in float32, which TensorRT has. ONNX prescribes distributions, not values:
a seed makes a run of one runtime repeatable, and two runtimes never draw the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import numpy_helper

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import Writer
from trtsmith.importers.dtypes import NUMBERS

_FLOAT = NUMBERS["float32"]
_DRAWN = (_FLOAT, NUMBERS["float16"])
"""float32 and float16: what TensorRT fills with random numbers."""

NUMERICS = "the values are drawn by TensorRT's own generator, as ONNX prescribes none"

_TYPES = {name: NUMBERS[name] for name in ("float16", "float32", "float64", "bfloat16")}


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    if node.op_type == "Bernoulli":
        return _bernoulli(node)
    if node.op_type == "Multinomial":
        return _multinomial(node)
    return _other_type(node)


def uniform(w: Writer, like: str) -> str:
    """Uniform numbers in [0, 1), with the node's own seed if it has one: an integer of Dropout, a float elsewhere."""
    seed: dict[str, Any] = {name: float(value) for name, value in w.node.own("seed").items()}
    return w.do("RandomUniformLike", like, dtype=_FLOAT, low=0.0, high=1.0, **seed)


def _bernoulli(node: NodeView) -> Replacement:
    """1 where a uniform number below 1 is less than the probability: never for 0, always for 1.

    ONNX's own function body, and with it onnxruntime, gives 1 where it is greater: with 1 - p, against ONNX's text.
    """
    w = Writer(node)
    probability = w.cast("x0", "float32")
    chosen = w.do("Less", uniform(w, probability), probability)
    wanted = node.attributes.get("dtype") or _TYPES.get(node.dtype(0) or "")
    if wanted:
        w.do("Cast", chosen, result="y0", to=wanted)
    else:
        w.do("CastLike", chosen, "x0", result="y0")
    return Replacement(w.nodes(), "a comparison with uniform numbers", numerics=NUMERICS)


def _multinomial(node: NodeView) -> Replacement:
    """The class in whose share of the cumulated probabilities a uniform number falls."""
    w = Writer(node)
    ends = w.do("CumSum", w.do("Softmax", w.cast("x0", "float32"), axis=1), np.array(1))
    shape = w.do("Shape", "x0")
    samples = int(node.attributes.get("sample_size", 1))
    drawn_shape = w.concat([w.do("Gather", shape, w.ints(0), axis=0), w.ints(samples, 1)])
    zeros = w.do("ConstantOfShape", drawn_shape, value=numpy_helper.from_array(np.zeros(1, np.float32)))
    passed = w.do("LessOrEqual", w.unsqueeze(ends, [1]), uniform(w, zeros))
    reached = w.reduce("ReduceSum", w.cast(passed, "int64"), [2], keepdims=False)
    last = w.do("Sub", w.do("Gather", shape, w.ints(1), axis=0), w.ints(1))
    w.do("Cast", w.do("Min", reached, last), result="y0", to=node.attributes.get("dtype", 6))
    return Replacement(w.nodes(), "uniform numbers in the cumulated probabilities", numerics=NUMERICS)


def _other_type(node: NodeView) -> Replacement | None:
    """Random tensors of float64 or bfloat16: drawn in float32, then cast."""
    wanted = node.attributes.get("dtype")
    if not wanted and node.inputs:
        wanted = _TYPES.get(node.dtype(0) or "")
    if not wanted or wanted in _DRAWN:
        return None
    w = Writer(node)
    given = node.own("high", "low", "mean", "scale", "seed", "shape")
    like = [w.cast("x0", "float32")] if node.inputs else []
    w.do("Cast", w.do(node.op_type, *like, dtype=_FLOAT, **given), result="y0", to=wanted)
    return Replacement(w.nodes(), "drawn in float32, then cast")


RANDOM_VALUES = NodeRule(
    "random-values",
    "Bernoulli, Multinomial, random numbers of other types",
    (
        "Bernoulli",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    ),
    _rewrite,
)
