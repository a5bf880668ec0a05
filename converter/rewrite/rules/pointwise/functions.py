"""Replaces operators that TensorRT lacks or refuses by the function bodies that define them in ONNX.

The body is onnx's own, for the model's opset and, where it depends on them, the types of the node's inputs.

Rewrites Mod of floats with the divisor's sign (fmod = 0, from opset 28 on): TensorRT has the dividend's sign.

From r = fmod(x, y), as Python's % does: r + y where r is not zero and its sign is not y's; zero takes y's sign. An
infinite y leaves a finite x as it is, which x - trunc(x / y) * y would make NaN. The zero of y's sign is 0 / y: of a
choice between constants 0.0 and -0.0 TensorRT-RTX 1.6.1 makes 2147483648.0 (seen on an H200).

Folds Or with a constant True and And with a constant False, for TensorRT-RTX.

TensorRT-RTX 1.6.1 knows that the other operand does not matter, and writes the constant's own elements only: one, where
it stands for all (seen on an H200). The other operand and its opposite give the same, and are computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx
from onnx import helper

from trtsmith.converter.rewrite.engine.function_body import body_nodes
from trtsmith.converter.rewrite.engine.node_rule import (
    NodeView,
    Refusal,
    Replacement,
    constant_node,
    node_rule,
)
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.target import Fault
from trtsmith.importers.dtypes import FLOATS


@node_rule("float-mod", "Mod")
def float_mod_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites Mod of floats whose result has the divisor's sign."""
    dtype = node.dtype(0)
    if dtype not in FLOATS or node.attributes.get("fmod"):
        return None
    w = Writer(node)
    x, y = w.x
    infinity, zero = (w.number(value, dtype) for value in (np.inf, 0.0))
    kept = w.And(w.Not(w.Equal(w.Abs(x), infinity)), w.Equal(w.Abs(y), infinity))
    rest = w.Where(kept, x, w.Mod(x, y, fmod=1))
    is_zero = w.Equal(rest, zero)
    moves = w.And(w.Xor(w.Less(rest, zero), w.Less(y, zero)), w.Not(is_zero))
    return Replacement(
        w.finish(w.Where(is_zero, w.Div(zero, y), w.Where(moves, w.Add(rest, y), rest))),
        "the remainder with the dividend's sign, brought to the divisor's",
        numerics="TensorRT computes a remainder as x - trunc(x / y) * y, which loses digits where x / y is large",
    )


_FAULTS = (
    Fault(
        "tensorrt_rtx",
        ("1.6.1",),
        "leaves all but one element of such a result unwritten",
        "an engine run on an H200",
    ),
)


@node_rule("constant-logic", "Or", "And", faults=_FAULTS)
def constant_logic_rule(node: NodeView) -> Replacement | None:
    """Folds Or with a constant True and And with a constant False."""
    deciding = node.op_type == "Or"
    for index in range(2):
        constant, rank = node.constant(index), node.rank(1 - index)
        if constant is None or constant.size != 1 or bool(constant.reshape(-1)[0]) is not deciding:
            continue
        if rank is None or rank < constant.ndim:
            continue
        w = Writer(node)
        other = w.x[1 - index]
        return Replacement(
            w.finish(w.write(node.op_type, other, w.Not(other))),
            "the other operand and its opposite",
            notes=(node.because(_FAULTS, "it is computed"),),
        )
    return None


def _always(node: NodeView) -> bool:
    return True


def _half(node: NodeView) -> bool:
    """Whether the type is a 16-bit float, for which TensorRT-RTX 1.7.1 fails on Celu: "the rank of operands should be the
    same".
    """
    return node.dtype(0) in ("float16", "bfloat16")


_FUSED_HEADS = range(16, 257, 16)
"""Sizes of a head for which TensorRT-RTX 1.7.1 has an attention kernel on sm86, in float16 and bfloat16: 16, 32, 64, 128
and 256 build, 8 does not. The parser does not let the layer be decomposed where there is no kernel."""

_DECODING_HEADS = range(8, 257, 8)
_DECODING_ROWS = 6
"""One query at a time builds in every type: sizes of a head that do (of 1, 2, 4, 6, 8, 12, 16, 24, ..., 256, 264, 512), and
the fewest batches times heads (of 1, 2, 3, 6, 12, 512) that do, the batch being fixed."""

_UNSUPPORTED_BY_LAYER = ("softcap", "softmax_precision", "qk_matmul_output_mode")


def _attention(node: NodeView) -> bool:
    """Whether TensorRT's attention layer refuses the node, as it does without a matching kernel.

    It ignores input 6 (nonpad_kv_seqlen) without a word, where it builds at all.
    """
    if len(node.outputs) > 1 or any(node.input(i) for i in (4, 5, 6)):
        return True
    given = {a.name for a in node.proto.attribute} - {"scale", "is_causal", "q_num_heads", "kv_num_heads"}
    if any(node.attributes.get(name) for name in _UNSUPPORTED_BY_LAYER) or given - {*_UNSUPPORTED_BY_LAYER}:
        return True
    if node.attributes.get("is_causal") and node.input(3):
        return True
    shapes = [node.shape(i) for i in range(3)]
    query, key, value = shapes
    if not query or not key or not value:
        return node.dtype(0) not in ("float16", "bfloat16", None)
    if len(query) == 3:
        heads, others = node.attributes.get("q_num_heads"), node.attributes.get("kv_num_heads")
        size = query[-1] // heads if query[-1] and heads else None
    else:
        heads, others, size = query[1], key[1], query[-1]
    if key[-1] != value[-1]:
        return True
    if node.dtype(0) in ("float16", "bfloat16") and (size is None or size in _FUSED_HEADS):
        return False
    if query[-2] == 1:
        return not (size in _DECODING_HEADS and query[0] and heads and query[0] * heads >= _DECODING_ROWS)
    # Three dimensions are reshaped to four by the parser, and that is decomposed: if nothing else is asked for.
    plain = heads == others and not node.input(3) and not node.attributes.get("is_causal")
    fixed = all(dim is not None for shape in shapes for dim in shape or ())
    return not (len(query) == 3 and plain and fixed)


_TAKEN: Mapping[str, Callable[[NodeView], bool]] = {
    "AffineGrid": _always,
    "Attention": _attention,
    "CausalConvWithState": _always,
    "Celu": _half,
    "CenterCropPad": _always,
    "LinearAttention": _always,
    "NegativeLogLikelihoodLoss": _always,
    "SoftmaxCrossEntropyLoss": _always,
    "SwiGLU": _always,
    "ai.onnx.preview::FlexAttention": _always,
}
"""By operator, whether TensorRT does not take the node. Its parser takes what has a body and is not here."""


@node_rule("functions", *_TAKEN)
def functions_rule(node: NodeView) -> Replacement | Refusal | None:
    """Replaces operators that ONNX defines by a function body by that body."""
    kind = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
    if not _TAKEN[kind](node):
        return None
    nodes = body_nodes(node)
    if nodes is None:
        for index in (i for i, name in enumerate(node.inputs) if name):
            node.known_dtype(index)
        return Refusal(
            f"ONNX has no function body for {kind} in opset {node.opset} with these inputs",
            "an opset in which the operator is defined by a function",
            "export the model with a newer opset",
        )
    return Replacement(_repaired(nodes, node), f"{node.op_type} by ONNX's own definition")


def _repaired(nodes: list[onnx.NodeProto], node: NodeView) -> list[onnx.NodeProto]:
    """Makes Range operands scalars: AffineGrid's body has one-element vectors, which only some runtimes take.

    It squeezes [N, 1, 3] without axes, too, in a branch: for one matrix, the batch would go as well.
    """
    result: list[onnx.NodeProto] = []
    for made in nodes:
        for inner in (one for attribute in made.attribute for one in attribute.g.node):
            if node.op_type == "AffineGrid" and inner.op_type == "Squeeze" and len(inner.input) == 1:
                axes = node.fresh("axes")
                result.append(constant_node(axes, np.array([1])))
                inner.input.append(axes)
        if made.op_type == "Range":
            for index, name in enumerate(made.input):
                scalar, shape = node.fresh("scalar"), node.fresh("no_dims")
                result.append(constant_node(shape, np.zeros(0, np.int64)))
                result.append(helper.make_node("Reshape", [name, shape], [scalar]))
                made.input[index] = scalar
        result.append(made)
    return result
