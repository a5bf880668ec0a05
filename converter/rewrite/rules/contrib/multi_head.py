"""onnxruntime's MultiHeadAttention, where TensorRT does not take it: a bias, masks, a past, packed inputs, more outputs.

What TensorRT-RTX 1.7.1 takes was asked of its parser: query, key and value of three dimensions and equal widths, with a
sum to the scores at most, and one output.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.opset_forms import ints, split, squeeze
from trtsmith.converter.rewrite.rules.contrib.attention_forms import (
    added_to_scores,
    attend,
    heads,
    length,
    too_old,
)
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import float_type, unknown, unknown_type


def _native(node: NodeView) -> bool:
    if any(node.input(i) for i in (3, 4, 6, 7, 8, 9)) or any(node.used(i) for i in (1, 2, 3)):
        return False
    if node.attributes.get("unidirectional") or not node.input(2):
        return False
    if any(node.rank(i) not in (3, None) for i in range(3)):
        return False
    key, value = node.shape(1), node.shape(2)
    return not key or not value or key[-1] == value[-1]


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    if _native(node):
        return None
    dtype = float_type(node)
    if dtype is None:
        return unknown_type(node)
    ranks = node.rank(0), node.rank(1), node.rank(2)
    if ranks[0] is None or (node.input(1) and ranks[1] is None):
        return unknown(node, 0 if ranks[0] is None else 1, "the rank")
    fault = too_old(node) or _unsupported(node)
    if fault is not None:
        return fault
    count = node.attributes["num_heads"]
    size = _head_size(node, count)
    if isinstance(size, Refusal):
        return size
    parts = _parts(node, count)
    if isinstance(parts, Refusal):
        return parts
    lines = [parts]
    if node.input(6):
        lines += [
            "key = Concat <axis = 2> (x6, new_key)",
            "value = Concat <axis = 2> (x7, new_value)",
            length("past", "x6", 2),
        ]
    else:
        lines += ["key = Identity (new_key)", "value = Identity (new_value)", ints("past", [0], scalar=True)]
    lines += [f"y{i} = Identity ({name})" for i, name in ((1, "key"), (2, "value")) if node.used(i)]
    masks = added_to_scores(node, 4, dtype)
    if isinstance(masks, Refusal):
        return masks
    lines += masks[0]
    scale = node.attributes.get("scale") or size**-0.5
    scores = "y3" if node.used(3) else ""
    lines.append(attend("y0", "query", "key", "value", scale, masks[1], dtype, scores))
    return Replacement(node.statements("\n".join(lines)), "two products and a Softmax")


def _unsupported(node: NodeView) -> Refusal | None:
    for index, name in ((8, "past_sequence_length"), (9, "cache_indirection")):
        if node.input(index):
            return Refusal(
                f"it has the input {name!r} ({node.input(index)!r}), of buffers that past and present share",
                "past and present of their own",
                "export the model without shared buffers",
            )
    return None


def _head_size(node: NodeView, count: int) -> int | Refusal:
    """Of query and key, from whatever shape has it."""
    query, key, past, bias = node.shape(0), node.shape(1), node.shape(6), node.shape(3)
    if query and len(query) == 5 and query[-1]:
        return query[-1]
    if query and query[-1]:
        return query[-1] // count
    if key and key[-1]:
        return key[-1] if len(key) > 3 else key[-1] // count
    if past and past[-1]:
        return past[-1]
    if bias and bias[0] and not node.input(2):
        return bias[0] // 3 // count
    return unknown(node, 0, "the last size")


def _parts(node: NodeView, count: int) -> str | Refusal:
    """Lines that make `query`, `new_key` and `new_value`, with the bias added."""
    ranks = node.rank(0), node.rank(1)
    if ranks[0] == 5:
        return _bias_refusal(node) or _unpacked(["query", "new_key", "new_value"], "x0", node.opset)
    if ranks[1] == 5:
        unpacked = _unpacked(["new_key", "new_value"], "x1", node.opset)
        return _bias_refusal(node) or f"{heads('query', 'x0', count)}\n{unpacked}"
    names = ["x0", "x1", "x2"]
    lines = []
    if node.input(3):
        widths = _widths(node)
        if isinstance(widths, Refusal):
            return widths
        lines.append(split(["bias_q", "bias_k", "bias_v"], "x3", widths, 0, node.opset))
        biased = (
            1 if ranks[1] == 4 else 3
        )  # keys and values of four dimensions are a cache, which has its bias
        lines += [f"flat_{s} = Add (x{i}, bias_{s})" for i, s in enumerate("qkv"[:biased])]
        names[:biased] = [f"flat_{s}" for s in "qkv"[:biased]]
    lines.append(heads("query", names[0], count))
    for name, result in ((names[1], "new_key"), (names[2], "new_value")):
        lines.append(f"{result} = Identity ({name})" if ranks[1] == 4 else heads(result, name, count))
    return "\n".join(lines)


def _bias_refusal(node: NodeView) -> Refusal | None:
    if not node.input(3):
        return None
    return Refusal(
        "packed inputs have a bias", "packed inputs without one", "add the bias before they are packed"
    )


def _widths(node: NodeView) -> list[int] | Refusal:
    """Of the three parts of the bias."""
    query, bias = node.shape(0), node.shape(3)
    if not query or query[-1] is None or not bias or bias[0] is None:
        return unknown(node, 0, "the last size")
    return [query[-1], query[-1], bias[0] - 2 * query[-1]]


def _unpacked(results: list[str], data: str, opset: int) -> str:
    """(batch, length, heads, n, size) taken apart in the fourth dimension."""
    parts = [f"{name}_part" for name in results]
    lines = [split(parts, data, [1] * len(parts), 3, opset)]
    for name, part in zip(results, parts, strict=True):
        lines.append(squeeze(f"{name}_rows", part, [3], opset))
        lines.append(f"{name} = Transpose <perm = [0, 2, 1, 3]> ({name}_rows)")
    return "\n".join(lines)


CONTRIB_MULTI_HEAD = NodeRule(
    "contrib-multi-head",
    "onnxruntime's MultiHeadAttention becomes two products and a Softmax, where TensorRT does not take it",
    ("com.microsoft::MultiHeadAttention",),
    _rewrite,
)
