"""The attention of onnxruntime's operators, as ONNX statements: masks in each documented form, the past, the product.

Query, key and value have shape (batch, heads, length, head size) throughout. Masks add to the scores what onnxruntime's
CPU provider adds: `mask_filter_value` where a key is padding, the type's lowest value where a key lies ahead.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.graph.tensor_types import Dim
from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal
from trtsmith.converter.rewrite.engine.opset_forms import ints, unsqueeze
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import number, unknown

OLDEST = 11
"""Range came with opset 11, and Where before it."""

FILTER = -10000.0
"""What onnxruntime takes for mask_filter_value where the node has none."""


def too_old(node: NodeView) -> Refusal | None:
    if node.opset >= OLDEST:
        return None
    fix = f"convert the model with onnx.version_converter to opset {OLDEST} or later"
    return Refusal(f"the model is of opset {node.opset}", f"opset {OLDEST} or later", fix)


def heads(result: str, data: str, count: int) -> str:
    """(batch, length, heads * size) as (batch, heads, length, size)."""
    return f"""
        {ints(f"{result}_split", [0, 0, count, -1])}
        {result}_parts = Reshape ({data}, {result}_split)
        {result} = Transpose <perm = [0, 2, 1, 3]> ({result}_parts)
    """


def length(result: str, data: str, axis: int) -> str:
    """One size of a value, as a scalar."""
    return f"""
        {result}_shape = Shape ({data})
        {ints(f"{result}_axis", [axis], scalar=True)}
        {result} = Gather ({result}_shape, {result}_axis)
    """


def counted(result: str, count: str) -> str:
    """0, 1, ... `count` - 1; `count` names a scalar."""
    lines = [ints(f"{result}_from", [0], scalar=True), ints(f"{result}_by", [1], scalar=True)]
    return "\n".join([*lines, f"{result} = Range ({result}_from, {count}, {result}_by)"])


def padding(
    result: str, node: NodeView, index: int, batch: Dim, keys: str, value: float, dtype: str
) -> str | Refusal:
    """What the padding mask (input `index`) adds to the scores; `keys` names the (batch, heads, length, size) keys."""
    dims = node.dims(index)
    if dims is None:
        return unknown(node, index, "the rank")
    ends = f"""
        {number(f"{result}_filter", value, dtype)}
        {number(f"{result}_nothing", 0.0, dtype)}
        {result} = Where ({result}_kept, {result}_nothing, {result}_filter)
    """
    if len(dims) in (2, 3):
        axes = [1, 2] if len(dims) == 2 else [1]
        zero = f"{result}_low = Cast <to = 6> ({result}_zero)"
        return f"""
            {ints(f"{result}_zero", [0], scalar=True)}
            {zero}
            {result}_mask = Cast <to = 6> (x{index})
            {result}_flat = Greater ({result}_mask, {result}_low)
            {unsqueeze(f"{result}_kept", f"{result}_flat", axes, node.opset)}
            {ends}
        """
    form = _lengths(dims, batch)
    if form is None:
        return Refusal(
            f"the mask {node.input(index)!r} has shape {list(dims)}, the batch {batch!r}",
            "a mask of shape (batch, keys) or (batch, queries, keys), or lengths of shape (batch) or (2 * batch)",
            "export the model with a fixed batch, or with a mask of two dimensions",
        )
    kept = f"{result}_kept = Less ({result}_place, {result}_end)"
    ends_of = f"{result}_all = Cast <to = 7> (x{index})"
    if form == "ends":
        ends_of += f"\n{result}_last = Identity ({result}_all)"
    else:
        halves = "axis = 0, num_outputs = 2" if node.opset >= 18 else "axis = 0"
        ends_of += f"\n{result}_last, {result}_first = Split <{halves}> ({result}_all)"
        kept = f"""
            {unsqueeze(f"{result}_begin", f"{result}_first", [1, 2, 3], node.opset)}
            {result}_before_end = Less ({result}_place, {result}_end)
            {result}_early = Less ({result}_place, {result}_begin)
            {result}_late = Not ({result}_early)
            {result}_kept = And ({result}_before_end, {result}_late)
        """
    return f"""
        {ends_of}
        {unsqueeze(f"{result}_end", f"{result}_last", [1, 2, 3], node.opset)}
        {length(f"{result}_count", keys, 2)}
        {counted(f"{result}_place", f"{result}_count")}
        {kept}
        {ends}
    """


def _lengths(dims: tuple[Dim, ...], batch: Dim) -> str | None:
    """What a mask of one dimension holds: "ends" of the sequences, or "both" ends and starts."""
    if len(dims) != 1 or dims[0] is None or batch is None:
        return None
    if dims[0] == batch:
        return "ends"
    if isinstance(batch, int) and dims[0] == 2 * batch:
        return "both"
    return None


def causal(result: str, queries: str, keys: str, past: str, dtype: str) -> str:
    """The type's lowest value where a key lies ahead of its query; `past` names the number of keys before the first."""
    bottom = np.finfo(dtype).min if dtype != "bfloat16" else -((2 - 2**-7) * 2.0**127)
    return f"""
        {length(f"{result}_rows_count", queries, 2)}
        {length(f"{result}_columns_count", keys, 2)}
        {counted(f"{result}_rows", f"{result}_rows_count")}
        {counted(f"{result}_columns", f"{result}_columns_count")}
        {result}_own = Add ({result}_rows, {past})
        {ints(f"{result}_column_shape", [-1, 1])}
        {result}_place = Reshape ({result}_own, {result}_column_shape)
        {result}_ahead = Greater ({result}_columns, {result}_place)
        {number(f"{result}_lowest", float(bottom), dtype)}
        {number(f"{result}_nothing", 0.0, dtype)}
        {result} = Where ({result}_ahead, {result}_lowest, {result}_nothing)
    """


def added_to_scores(node: NodeView, mask: int, dtype: str) -> tuple[list[str], list[str]] | Refusal:
    """Statements for what Attention and MultiHeadAttention add to the scores, and the names of it: the padding mask
    (input `mask`), what lies ahead, the bias (input 5). They read `key`, `query` and `past`."""
    lines: list[str] = []
    added: list[str] = []
    if node.input(mask):
        batch = (node.dims(0) or (None,))[0]
        value = node.attributes.get("mask_filter_value", FILTER)
        hidden = padding("padding", node, mask, batch, "key", value, dtype)
        if isinstance(hidden, Refusal):
            return hidden
        lines.append(hidden)
        added.append("padding")
    if node.attributes.get("unidirectional"):
        lines.append(causal("ahead", "query", "key", "past", dtype))
        added.append("ahead")
    return lines, [*added, *(["x5"] if node.input(5) else [])]


def attend(
    result: str,
    query: str,
    key: str,
    value: str,
    scale: float,
    added: list[str],
    dtype: str,
    probabilities: str = "",
) -> str:
    """softmax(query key' scale + added...) value, as (batch, length, heads * size).

    Vaswani et al., arXiv 1706.03762. `probabilities`: the name to give the scores before the softmax, if they are asked for.
    """
    lines = [
        number(f"{result}_scale", scale, dtype),
        f"{result}_turned = Transpose <perm = [0, 1, 3, 2]> ({key})",
        f"{result}_product = MatMul ({query}, {result}_turned)",
        f"{result}_scores_0 = Mul ({result}_product, {result}_scale)",
    ]
    lines += [f"{result}_scores_{i + 1} = Add ({result}_scores_{i}, {name})" for i, name in enumerate(added)]
    if probabilities:
        lines.append(f"{probabilities} = Identity ({result}_scores_{len(added)})")
    lines += [
        f"{result}_weights = Softmax <axis = 3> ({result}_scores_{len(added)})",
        f"{result}_heads = MatMul ({result}_weights, {value})",
        f"{result}_rows = Transpose <perm = [0, 2, 1, 3]> ({result}_heads)",
        ints(f"{result}_joined", [0, 0, -1]),
        f"{result} = Reshape ({result}_rows, {result}_joined)",
    ]
    return "\n".join(lines)
