"""Rewrites Bernoulli, Multinomial, and random tensors in types that TensorRT does not draw.

All draw from RandomUniformLike or its kin in float32, which TensorRT has. ONNX prescribes distributions, not values:
a seed makes a run of one runtime repeatable, and two runtimes never draw the same.
"""

from __future__ import annotations

import numpy as np
from onnx import numpy_helper

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Value, Writer
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


def uniform(w: Writer, like: Value) -> Value:
    """Uniform numbers in [0, 1), with the node's own seed if it has one: an integer of Dropout, a float elsewhere."""
    seed = {name: float(value) for name, value in w.node.own("seed").items()}
    drawn: Value = w.RandomUniformLike(like, dtype=_FLOAT, low=0.0, high=1.0, **seed)
    return drawn


def _bernoulli(node: NodeView) -> Replacement:
    """1 where a uniform number below 1 is less than the probability: never for 0, always for 1.

    ONNX's own function body, and with it onnxruntime, gives 1 where it is greater: with 1 - p, against ONNX's text.
    """
    w = Writer(node)
    probability = w.Cast(w.x[0], to="float32")
    chosen = w.Less(uniform(w, probability), probability)
    wanted = node.attributes.get("dtype") or _TYPES.get(node.dtype(0) or "")
    result = w.Cast(chosen, to=wanted) if wanted else w.CastLike(chosen, w.x[0])
    return Replacement(w.finish(result), "a comparison with uniform numbers", numerics=NUMERICS)


def _multinomial(node: NodeView) -> Replacement:
    """The class in whose share of the cumulated probabilities a uniform number falls."""
    w = Writer(node)
    ends = w.CumSum(w.Softmax(w.Cast(w.x[0], to="float32"), axis=1), 1)
    shape = w.Shape(w.x[0])
    samples = int(node.attributes.get("sample_size", 1))
    drawn_shape = w.Concat(w.Gather(shape, [0], axis=0), [samples, 1], axis=0)
    zeros = w.ConstantOfShape(drawn_shape, value=numpy_helper.from_array(np.zeros(1, np.float32)))
    passed = w.LessOrEqual(w.Unsqueeze(ends, axes=[1]), uniform(w, zeros))
    reached = w.reduce("ReduceSum", w.Cast(passed, to="int64"), [2], keepdims=False)
    last = w.Sub(w.Gather(shape, [1], axis=0), [1])
    return Replacement(
        w.finish(w.Cast(w.Min(reached, last), to=node.attributes.get("dtype", 6))),
        "uniform numbers in the cumulated probabilities",
        numerics=NUMERICS,
    )


def _other_type(node: NodeView) -> Replacement | None:
    """Random tensors of float64 or bfloat16: drawn in float32, then cast."""
    wanted = node.attributes.get("dtype")
    if not wanted and node.inputs:
        wanted = _TYPES.get(node.dtype(0) or "")
    if not wanted or wanted in _DRAWN:
        return None
    w = Writer(node)
    given = node.own("high", "low", "mean", "scale", "seed", "shape")
    like = [w.Cast(w.x[0], to="float32")] if node.inputs else []
    return Replacement(
        w.finish(w.Cast(w.write(node.op_type, *like, dtype=_FLOAT, **given), to=wanted)),
        "drawn in float32, then cast",
    )


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
