"""Rewrites Bernoulli, Multinomial, and random tensors of types that TensorRT does not draw.

All draw from RandomUniformLike or its kin in float32, which TensorRT has, and of scalars TensorRT-RTX 1.7.1 has not: Myelin
fails ("Copy operation 'y_shape_concat' has 1 inputs"). ONNX prescribes distributions, not values:
a seed makes a run of one runtime repeatable, and two runtimes never draw the same.

Keeps random numbers apart from the arithmetic behind them, which TensorRT-RTX computes wrong where it broadcasts them.

Rewrites Dropout in training mode as a comparison with uniform numbers: TensorRT has the one that does nothing.

That is how a Monte Carlo dropout model, which estimates its uncertainty at inference, is exported.
"""

from __future__ import annotations

from shlex import quote
from typing import Any

import numpy as np
from onnx import numpy_helper

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.target import Fault
from trtsmith.importers.dtypes import FLOATS, NUMBERS

_FLOAT = NUMBERS["float32"]
_DRAWN = (_FLOAT, NUMBERS["float16"])
"""float32 and float16: what TensorRT fills with random numbers."""

NUMERICS = "the values are drawn by TensorRT's own generator, as ONNX prescribes none"

_FAULTS = (
    Fault(
        "tensorrt_rtx",
        ("1.6.1",),
        "reads beyond random numbers where the arithmetic behind them broadcasts them",
        "engines run on an H200: [4, 1, 1], [1, 1] and four more shapes, static and dynamic, times a larger tensor",
    ),
)

_TYPES = {name: NUMBERS[name] for name in ("float16", "float32", "float64", "bfloat16")}


@node_rule(
    "random-values",
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
)
def random_values_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites Bernoulli, Multinomial, random scalars, and random numbers of other types."""
    if node.op_type == "Bernoulli":
        return _bernoulli(node)
    if node.op_type == "Multinomial":
        return _multinomial(node)
    return _other_type(node)


def uniform(w: Writer, like: Value) -> Value:
    """Draws uniform numbers in [0, 1), with the node's seed if it has one: an integer for Dropout, a float elsewhere."""
    seed = {name: float(value) for name, value in w.node.own("seed").items()}
    drawn: Value = w.RandomUniformLike(like, dtype=_FLOAT, low=0.0, high=1.0, **seed)
    return drawn


def _bernoulli(node: NodeView) -> Replacement:
    """1 where a uniform number in [0, 1) is below the probability: never for 0, always for 1.

    ONNX's own function body, and with it onnxruntime, gives 1 where it is greater: with 1 - p, against ONNX's text.
    """
    w = Writer(node)
    probability = w.Cast(w.x[0], to="float32")
    chosen = w.Less(uniform(w, probability), probability)
    wanted = node.attributes.get("dtype") or _TYPES.get(node.dtype(0) or "")
    result = w.Cast(chosen, to=wanted) if wanted else w.CastLike(chosen, w.x[0])
    return Replacement(w.finish(result), "a comparison with uniform numbers", numerics=NUMERICS)


def _multinomial(node: NodeView) -> Replacement:
    """The class into whose share of the cumulative probabilities a uniform number falls."""
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
    """Draws float64 and bfloat16 in float32 with a Cast, and scalars as one-element vectors; None for other nodes."""
    wanted = node.attributes.get("dtype")
    if not wanted and node.inputs:
        wanted = _TYPES.get(node.dtype(0) or "")
    cast = bool(wanted) and wanted not in _DRAWN
    scalar = (node.rank(0) if node.inputs else len(node.attributes["shape"])) == 0
    if not cast and not scalar:
        return None
    w = Writer(node)
    given = _given(node)
    like = list(w.x)
    if cast:
        given["dtype"] = _FLOAT
        like = [w.Cast(value, to="float32") for value in like]
    if scalar and like:
        like = [w.Unsqueeze(like[0], axes=[0])]
    elif scalar:
        given["shape"] = [1]
    drawn = w.write(node.op_type, *like, **given)
    drawn = w.Squeeze(drawn, axes=[0]) if scalar else drawn
    what = [*["as a vector of one element"] * scalar, *["in float32, then cast"] * cast]
    return Replacement(w.finish(w.Cast(drawn, to=wanted) if cast else drawn), f"drawn {' and '.join(what)}")


def _given(node: NodeView) -> dict[str, Any]:
    return node.own("dtype", "high", "low", "mean", "scale", "seed", "shape")


@node_rule(
    "random-broadcast",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
    faults=_FAULTS,
)
def random_broadcast_rule(node: NodeView) -> Replacement | None:
    """Draws random numbers with one more axis of size 1, and takes the maximum over it.

    TensorRT-RTX does not fuse a reduction with the arithmetic behind it.
    """
    if [reader and reader.op_type for reader in node.readers(0)] == ["ReduceMax"]:
        return None
    w = Writer(node)
    given = _given(node)
    if not node.inputs:
        given["shape"] = [1, *node.attributes["shape"]]
    drawn = w.write(node.op_type, *(w.Unsqueeze(like, axes=[0]) for like in w.x), **given)
    result = w.reduce("ReduceMax", drawn, [0], keepdims=False)
    return Replacement(w.finish(result), "drawn with an axis of size 1", notes=(node.because(_FAULTS),))


@node_rule("training-dropout", "Dropout")
def training_dropout_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites Dropout in training mode as a comparison with uniform numbers.

    Each element is kept with probability 1 - ratio, and divided by it, from opset 12 on.
    """
    if not node.input(2):
        return None
    training, dtype = node.constant(2), node.dtype(0)
    if training is None:
        return Refusal(
            f"whether Dropout is in training mode ({node.input(2)!r}) is computed at run time",
            "a constant",
            f"freeze it: --freeze {quote(node.input(2))}=0",
        )
    if not bool(training.reshape(-1)[0]):
        return None
    ratio = node.constant(1) if node.input(1) else np.array(0.5, np.float32)
    if ratio is None or dtype not in FLOATS:
        return Refusal(
            f"the ratio ({node.input(1)!r}) is computed at run time, or the element type unknown",
            "a constant ratio, and a known type",
            f"freeze it: --freeze {quote(node.input(1))}=VALUE",
        )
    part = float(ratio.reshape(-1)[0])
    kind = np.dtype(dtype)
    # At a ratio of 1 nothing is kept, so that the scale is not used.
    scale = np.array(1 / (1 - part) if part < 1 else 0).astype(kind)
    w = Writer(node)
    kept = w.GreaterOrEqual(uniform(w, w.Cast(w.x[0], to="float32")), part)
    result = w.Where(kept, w.Mul(w.x[0], scale), np.array(0).astype(kind))
    return Replacement(
        w.finish(result, kept),
        "a comparison with uniform numbers",
        notes=("elements are dropped at inference, too: export the model in evaluation mode to keep them",),
        numerics=NUMERICS,
    )
