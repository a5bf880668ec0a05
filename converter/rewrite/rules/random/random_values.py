"""Bernoulli, Multinomial, and random tensors in types that TensorRT does not draw.

All draw from RandomUniformLike or its kin in float32, which TensorRT has. ONNX prescribes distributions, not values:
a seed makes a run of one runtime repeatable, and two runtimes never draw the same.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.opset_forms import reduce, unsqueeze
from trtsmith.converter.rewrite.engine.statement_writer import statements
from trtsmith.importers.dtypes import NUMBERS

_FLOAT = 1
_DRAWN = (1, 10)
"""float32 and float16: what TensorRT fills with random numbers."""

NUMERICS = "the values are drawn by TensorRT's own generator, as ONNX prescribes none"

_TYPES = {name: NUMBERS[name] for name in ("float16", "float32", "float64", "bfloat16")}


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    if node.op_type == "Bernoulli":
        return _bernoulli(node)
    if node.op_type == "Multinomial":
        return _multinomial(node)
    return _other_type(node)


def seed(node: NodeView) -> str:
    """The seed as one more attribute, if the node has one."""
    return f", seed = {float(node.attributes['seed'])!r}" if node.given("seed") else ""


def _bernoulli(node: NodeView) -> Replacement:
    """1 where a uniform number below 1 is less than the probability: never for 0, always for 1.

    ONNX's own function body, and with it onnxruntime, gives 1 where it is greater: with 1 - p, against ONNX's text.
    """
    wanted = node.attributes.get("dtype")
    output = f"Cast <to = {wanted}>" if wanted else "CastLike"
    like = "" if wanted else ", x0"
    if not wanted and node.dtype(0) in _TYPES:
        output, like = f"Cast <to = {_TYPES[node.dtype(0) or '']}>", ""
    body = f"""
        probability = Cast <to = {_FLOAT}> (x0)
        drawn = RandomUniformLike <dtype = {_FLOAT}, low = 0.0, high = 1.0{seed(node)}> (probability)
        chosen = Less (drawn, probability)
        y0 = {output} (chosen{like})
    """
    return Replacement(statements(node, body), "a comparison with uniform numbers", numerics=NUMERICS)


def _multinomial(node: NodeView) -> Replacement:
    """The class in whose share of the cumulated probabilities a uniform number falls."""
    body = f"""
        logits = Cast <to = {_FLOAT}> (x0)
        weights = Softmax <axis = 1> (logits)
        ends = CumSum (weights, axis)
        {unsqueeze("shares", "ends", [1], node.opset)}
        shape = Shape (x0)
        batch = Gather <axis = 0> (shape, first)
        drawn_shape = Concat <axis = 0> (batch, rest)
        zeros = ConstantOfShape <value = float[1] {{0.0}}> (drawn_shape)
        drawn = RandomUniformLike <dtype = {_FLOAT}, low = 0.0, high = 1.0{seed(node)}> (zeros)
        passed = LessOrEqual (shares, drawn)
        counted = Cast <to = 7> (passed)
        {reduce("ReduceSum", "reached", "counted", [2], node.opset, keepdims=False)}
        classes = Gather <axis = 0> (shape, second)
        last = Sub (classes, one)
        sample = Min (reached, last)
        y0 = Cast <to = {node.attributes.get("dtype", 6)}> (sample)
    """
    samples = int(node.attributes.get("sample_size", 1))
    constants = {"first": [0], "second": [1], "one": [1], "rest": [samples, 1]}
    arrays = {name: np.array(value) for name, value in constants.items()}
    return Replacement(
        statements(node, body, axis=np.array(1), **arrays),
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
    given = [
        f"{name} = {node.attributes[name]!r}"
        for name in ("high", "low", "mean", "scale", "seed", "shape")
        if node.given(name)
    ]
    like = "number" if node.inputs else ""
    body = f"""
        {f"number = Cast <to = {_FLOAT}> (x0)" if node.inputs else ""}
        drawn = {node.op_type} <{", ".join((f"dtype = {_FLOAT}", *given))}> ({like})
        y0 = Cast <to = {wanted}> (drawn)
    """
    return Replacement(statements(node, body), "drawn in float32, then cast")


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
