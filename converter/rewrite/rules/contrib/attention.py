"""Writes the attention of onnxruntime's operators: masks in each documented form, past keys and values, the products.

Query, key and value have shape (batch, heads, length, head size) throughout. Masks add to the scores what onnxruntime's
CPU provider adds: `mask_filter_value` where a key is padding, the type's lowest value where a key lies ahead.

Rewrites onnxruntime's Attention as its projection to query, key and value, and their attention.

TensorRT takes it for ONNX's operator of that name, whose inputs are others, so that it always becomes standard operators.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.graph.tensor_types import Dim
from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.refusing import unrefused
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import float_type

OLDEST = 11
"""Range came with opset 11, and Where before it."""

FILTER = -10000.0
"""What onnxruntime takes for mask_filter_value where the node has none."""


def too_old(node: NodeView) -> Refusal | None:
    if node.opset >= OLDEST:
        return None
    fix = f"convert the model with onnx.version_converter to opset {OLDEST} or later"
    return Refusal(f"the model is of opset {node.opset}", f"opset {OLDEST} or later", fix)


def uneven(node: NodeView, count: int, width: int | None, name: str = "num_heads") -> Refusal | None:
    """Refuses a width that is not a multiple of the heads; None if it is, or is unknown."""
    if count > 0 and (width is None or (width > 0 and width % count == 0)):
        return None
    return Refusal(
        f"{name} is {count}" + ("" if width is None else f", of a last size of {width}"),
        "a positive number that divides the last size",
        "correct the node where the model is exported",
    )


def heads(w: Writer, data: Value, count: int, size: int = -1) -> Value:
    """Splits (batch, length, heads * size) into (batch, heads, length, size)."""
    return w.Transpose(w.Reshape(data, shape=[0, 0, count, size]), perm=[0, 2, 1, 3])


def length(w: Writer, data: Value, axis: int) -> Value:
    """Returns a value's size along an axis, as a scalar."""
    return w.Gather(w.Shape(data), axis)


def counted(w: Writer, count: Value) -> Value:
    """Counts 0, 1, ... `count` - 1, for a scalar `count`."""
    return w.Range(0, count, 1)


def unstacked(w: Writer, past: Value) -> tuple[Value, Value]:
    """Splits (2, batch, heads, length, size) into keys and values."""
    key, value = (w.Squeeze(part, axes=[0]) for part in w.split(past, [1, 1], 0))
    return key, value


def stacked(w: Writer, key: Value, value: Value) -> Value:
    """Inverts `unstacked`."""
    return w.Concat(w.Unsqueeze(key, axes=[0]), w.Unsqueeze(value, axes=[0]), axis=0)


def behind(
    w: Writer, past: tuple[Value, Value] | None, key: Value, value: Value
) -> tuple[Value, Value, Value]:
    """Joins past keys and values with the new ones. Returns them and the length of the past."""
    if past is None:
        return key, value, w.constant(0)
    return w.Concat(past[0], key, axis=2), w.Concat(past[1], value, axis=2), length(w, past[0], 2)


def _padding(w: Writer, index: int, keys: Value, dtype: str) -> Value | Refusal:
    """The padding mask (input `index`) as a summand of the scores; keys: (batch, heads, length, size)."""
    node = w.node
    dims, batch = node.dims(index) or (), (node.dims(0) or (None,))[0]
    if node.known_rank(index) in (2, 3):
        flat = w.Greater(w.Cast(w.x[index], to="int32"), w.number(0, "int32"))
        kept = w.unsqueeze(flat, [1, 2] if len(dims) == 2 else [1])
    else:
        form = _lengths(dims, batch)
        if form is None:
            return Refusal(
                f"the mask {node.input(index)!r} has shape {list(dims)}, the batch {batch!r}",
                "a mask of shape (batch, keys) or (batch, queries, keys), or lengths of shape (batch) or (2 * batch)",
                "export the model with a fixed batch, or with a mask of two dimensions",
            )
        ends = w.Cast(w.x[index], to="int64")
        first = None
        if form == "both":
            ends, first = w.Split(ends, outputs=2, axis=0, **halves(node))
        place = counted(w, length(w, keys, 2))
        kept = w.Less(place, w.Unsqueeze(ends, axes=[1, 2, 3]))
        if first is not None:
            kept = w.And(kept, w.Not(w.Less(place, w.Unsqueeze(first, axes=[1, 2, 3]))))
    filtered = w.number(node.attributes.get("mask_filter_value", FILTER), dtype)
    return w.Where(kept, w.number(0.0, dtype), filtered)


def halves(node: NodeView) -> dict[str, int]:
    """Returns the attribute that a Split into two equal parts needs from opset 18 on."""
    return {"num_outputs": 2} if node.opset >= 18 else {}


def _lengths(dims: tuple[Dim, ...], batch: Dim) -> str | None:
    """The contents of a one-dimensional mask: "ends" of the sequences, or "both" ends and starts; None for other shapes."""
    if len(dims) != 1 or dims[0] is None or batch is None:
        return None
    if dims[0] == batch:
        return "ends"
    if isinstance(batch, int) and dims[0] == 2 * batch:
        return "both"
    return None


def _causal(w: Writer, queries: Value, keys: Value, past: Value, dtype: str) -> Value:
    """The causal mask as a summand: the type's lowest value where a key follows its query. past: number of earlier keys."""
    bottom = np.finfo(dtype).min if dtype != "bfloat16" else -((2 - 2**-7) * 2.0**127)
    rows, columns = (counted(w, length(w, data, 2)) for data in (queries, keys))
    ahead = w.Greater(columns, w.Reshape(w.Add(rows, past), shape=[-1, 1]))
    return w.Where(ahead, w.number(float(bottom), dtype), w.number(0.0, dtype))


def added_to_scores(
    w: Writer, mask: int, query: Value, key: Value, past: Value, dtype: str
) -> list[Value] | Refusal:
    """Returns the summands of the scores in Attention and MultiHeadAttention: padding mask (input `mask`), causal mask, bias
    (input 5).
    """
    added: list[Value] = []
    if w.node.input(mask):
        hidden = unrefused(_padding(w, mask, key, dtype))
        added.append(hidden)
    if w.node.attributes.get("unidirectional"):
        added.append(_causal(w, query, key, past, dtype))
    return [*added, *([w.x[5]] if w.node.input(5) else [])]


def attend(
    w: Writer, query: Value, key: Value, value: Value, scale: float, added: list[Value], dtype: str
) -> tuple[Value, Value]:
    """Computes softmax(query key' scale + added...) value as (batch, length, heads * size); also returns the scores before
    the softmax.

    Vaswani et al., arXiv 1706.03762.
    """
    scores = w.Mul(w.MatMul(query, w.Transpose(key, perm=[0, 1, 3, 2])), w.number(scale, dtype))
    for more in added:
        scores = w.Add(scores, more)
    attended = w.MatMul(w.Softmax(scores, axis=3), value)
    return w.Reshape(w.Transpose(attended, perm=[0, 2, 1, 3]), shape=[0, 0, -1]), scores


@node_rule("contrib-attention", "com.microsoft::Attention")
def contrib_attention_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites onnxruntime's Attention as a projection, two products and a Softmax."""
    dtype = float_type(node)
    unrefused(too_old(node) or _unsupported(node))
    count = node.attributes["num_heads"]
    sizes = unrefused(_sizes(node))
    unrefused(uneven(node, count, sizes[0]) or uneven(node, count, sizes[2]))
    scale = node.attributes.get("scale") or (sizes[0] // count) ** -0.5
    w = Writer(node)
    product = w.MatMul(w.x[0], w.x[1])
    projected = w.Add(product, w.x[2]) if node.input(2) else product
    query, new_key, new_value = (heads(w, part, count) for part in w.split(projected, sizes, 2))
    key, value, past = behind(w, unstacked(w, w.x[4]) if node.input(4) else None, new_key, new_value)
    added = unrefused(added_to_scores(w, 3, query, key, past, dtype))
    result, _ = attend(w, query, key, value, scale, added, dtype)
    return Replacement(
        w.finish(result, stacked(w, key, value)), "a projection and the attention of its parts"
    )


def _unsupported(node: NodeView) -> Refusal | None:
    for name in ("do_rotary", "past_present_share_buffer"):
        if node.attributes.get(name):
            return Refusal(
                f"{name} = {node.attributes[name]}",
                f"{name} = 0",
                "export the model without "
                + ("fused rotary embeddings" if "rotary" in name else "shared buffers"),
            )
    return None


def _sizes(node: NodeView) -> list[int] | Refusal:
    """The widths of query, key and value."""
    given = node.attributes.get("qkv_hidden_sizes") or []
    if len(given) == 3:
        return list(given)
    weights = node.shape(1)
    total = weights[-1] if weights else None
    return node.unknown(1, "the last size") if total is None else [total // 3] * 3
