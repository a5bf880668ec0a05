"""Writes the attention of onnxruntime's operators: masks in each documented form, the past, the product.

Query, key and value have shape (batch, heads, length, head size) throughout. Masks add to the scores what onnxruntime's
CPU provider adds: `mask_filter_value` where a key is padding, the type's lowest value where a key lies ahead.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.graph.tensor_types import Dim
from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal
from trtsmith.converter.rewrite.engine.statement_writer import Writer
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import unknown

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
    """A refusal of a width that does not make so many heads; None of one that does, or is unknown."""
    if count > 0 and (width is None or (width > 0 and width % count == 0)):
        return None
    return Refusal(
        f"{name} is {count}" + ("" if width is None else f", of a last size of {width}"),
        "a positive number that divides the last size",
        "correct the node where the model is exported",
    )


def heads(w: Writer, data: str, count: int, size: int = -1) -> str:
    """(batch, length, heads * size) as (batch, heads, length, size)."""
    return w.transpose(w.reshape(data, [0, 0, count, size]), [0, 2, 1, 3])


def length(w: Writer, data: str, axis: int) -> str:
    """One size of a value, as a scalar."""
    return w.do("Gather", w.do("Shape", data), np.array(axis))


def counted(w: Writer, count: str) -> str:
    """0, 1, ... `count` - 1; `count` names a scalar."""
    return w.do("Range", np.array(0), count, np.array(1))


def unstacked(w: Writer, past: str) -> tuple[str, str]:
    """Keys and values of (2, batch, heads, length, size)."""
    key, value = (w.squeeze(part, [0]) for part in w.split(past, [1, 1], 0))
    return key, value


def write_present(w: Writer, key: str, value: str) -> None:
    """The inverse of `unstacked`, as output 1."""
    w.concat([w.unsqueeze(key, [0]), w.unsqueeze(value, [0])], 0, "y1")


def behind(w: Writer, past: tuple[str, str] | None, key: str, value: str) -> tuple[str, str, str]:
    """Keys and values of the past (names, if there is one) and the new ones; the length of the past."""
    if past is None:
        return w.do("Identity", key), w.do("Identity", value), w.const(np.array(0))
    return w.concat([past[0], key], 2), w.concat([past[1], value], 2), length(w, past[0], 2)


def _padding(w: Writer, index: int, keys: str, dtype: str) -> str | Refusal:
    """What the padding mask (input `index`) adds to the scores; `keys` names the (batch, heads, length, size) keys."""
    node = w.node
    dims, batch = node.dims(index), (node.dims(0) or (None,))[0]
    if dims is None:
        return unknown(node, index, "the rank")
    if len(dims) in (2, 3):
        flat = w.do("Greater", w.cast(f"x{index}", "int32"), w.number(0, "int32"))
        kept = w.unsqueeze(flat, [1, 2] if len(dims) == 2 else [1])
    else:
        form = _lengths(dims, batch)
        if form is None:
            return Refusal(
                f"the mask {node.input(index)!r} has shape {list(dims)}, the batch {batch!r}",
                "a mask of shape (batch, keys) or (batch, queries, keys), or lengths of shape (batch) or (2 * batch)",
                "export the model with a fixed batch, or with a mask of two dimensions",
            )
        ends = w.cast(f"x{index}", "int64")
        if form == "ends":
            ends = w.do("Identity", ends)
        else:
            w.many("Split", [ends], ["last", "first"], axis=0, **halves(node))
            ends = "last"
        place = counted(w, length(w, keys, 2))
        kept = w.do("Less", place, w.unsqueeze(ends, [1, 2, 3]))
        if form != "ends":
            early = w.do("Less", place, w.unsqueeze("first", [1, 2, 3]))
            kept = w.do("And", kept, w.do("Not", early))
    filtered = w.number(node.attributes.get("mask_filter_value", FILTER), dtype)
    return w.do("Where", kept, w.number(0.0, dtype), filtered)


def halves(node: NodeView) -> dict[str, int]:
    """The attribute that Split into two equal parts needs since opset 18."""
    return {"num_outputs": 2} if node.opset >= 18 else {}


def _lengths(dims: tuple[Dim, ...], batch: Dim) -> str | None:
    """What a mask of one dimension holds: "ends" of the sequences, or "both" ends and starts."""
    if len(dims) != 1 or dims[0] is None or batch is None:
        return None
    if dims[0] == batch:
        return "ends"
    if isinstance(batch, int) and dims[0] == 2 * batch:
        return "both"
    return None


def _causal(w: Writer, queries: str, keys: str, past: str, dtype: str) -> str:
    """The type's lowest value where a key lies ahead of its query; `past` names the number of keys before the first."""
    bottom = np.finfo(dtype).min if dtype != "bfloat16" else -((2 - 2**-7) * 2.0**127)
    rows, columns = (counted(w, length(w, data, 2)) for data in (queries, keys))
    ahead = w.do("Greater", columns, w.reshape(w.do("Add", rows, past), [-1, 1]))
    return w.do("Where", ahead, w.number(float(bottom), dtype), w.number(0.0, dtype))


def added_to_scores(w: Writer, mask: int, query: str, key: str, past: str, dtype: str) -> list[str] | Refusal:
    """What Attention and MultiHeadAttention add to the scores: the padding mask (input `mask`), what lies ahead, the
    bias (input 5)."""
    added: list[str] = []
    if w.node.input(mask):
        hidden = _padding(w, mask, key, dtype)
        if isinstance(hidden, Refusal):
            return hidden
        added.append(hidden)
    if w.node.attributes.get("unidirectional"):
        added.append(_causal(w, query, key, past, dtype))
    return [*added, *(["x5"] if w.node.input(5) else [])]


def attend(
    w: Writer, query: str, key: str, value: str, scale: float, added: list[str], dtype: str, scores: str = ""
) -> str:
    """softmax(query key' scale + added...) value, as (batch, length, heads * size).

    Vaswani et al., arXiv 1706.03762. `scores`: the name to give the scores before the softmax, if they are asked for.
    """
    product = w.do("MatMul", query, w.transpose(key, [0, 1, 3, 2]))
    total = w.do("Mul", product, w.number(scale, dtype))
    for name in added:
        total = w.do("Add", total, name)
    if scores:
        w.do("Identity", total, result=scores)
    attended = w.do("MatMul", w.do("Softmax", total, axis=3), value)
    return w.reshape(w.transpose(attended, [0, 2, 1, 3]), [0, 0, -1], "y0")
