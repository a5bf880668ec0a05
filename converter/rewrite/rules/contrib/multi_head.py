"""Rewrites onnxruntime's MultiHeadAttention in forms that TensorRT lacks: a bias, masks, a past, packed inputs.

What TensorRT-RTX 1.7.1 takes was asked of its parser: query, key and value of three dimensions and equal widths, with a
sum to the scores at most, and one output.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.refusing import unrefused
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.contrib.attention import (
    added_to_scores,
    attend,
    behind,
    heads,
    too_old,
    uneven,
)
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import float_type


def _native(node: NodeView) -> bool:
    if any(node.input(i) for i in (3, 4, 6, 7, 8, 9)) or any(node.used(i) for i in (1, 2, 3)):
        return False
    if node.attributes.get("unidirectional") or not node.input(2):
        return False
    if any(node.rank(i) not in (3, None) for i in range(3)):
        return False
    key, value = node.shape(1), node.shape(2)
    return not key or not value or key[-1] == value[-1]


@node_rule("contrib-multi-head", "com.microsoft::MultiHeadAttention")
def contrib_multi_head_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites onnxruntime's MultiHeadAttention as two products and a Softmax, where TensorRT lacks the form."""
    if _native(node):
        return None
    dtype = float_type(node)
    ranks = node.rank(0), node.rank(1), node.rank(2)
    if ranks[0] is None or (node.input(1) and ranks[1] is None):
        return node.unknown(0 if ranks[0] is None else 1, "the rank")
    unrefused(too_old(node) or _unsupported(node))
    count = node.attributes["num_heads"]
    unrefused(uneven(node, count, None))
    size = unrefused(_head_size(node, count))
    if size <= 0:
        return uneven(node, count, 0)
    w = Writer(node)
    query, new_key, new_value = unrefused(_parts(w, count))
    key, value, past = behind(w, (w.x[6], w.x[7]) if node.input(6) else None, new_key, new_value)
    added = unrefused(added_to_scores(w, 4, query, key, past, dtype))
    scale = node.attributes.get("scale") or size**-0.5
    result, scores = attend(w, query, key, value, scale, added, dtype)
    return Replacement(w.finish(result, key, value, scores), "two products and a Softmax")


def _unsupported(node: NodeView) -> Refusal | None:
    for index, name in ((8, "past_sequence_length"), (9, "cache_indirection")):
        if node.input(index):
            return Refusal(
                f"it has the input {name!r} ({node.input(index)!r}), which says that past and present share a buffer",
                "separate buffers for past and present",
                "export the model without shared buffers",
            )
    packed = 0 if node.rank(0) == 5 else 1 if node.rank(1) == 5 else 2
    missing = next((index for index in range(packed + 1) if not node.input(index)), None)
    if missing is not None:
        return Refusal(
            f"it has no {('query', 'key', 'value')[missing]}",
            "query, key and value, or packed inputs of five dimensions",
            "export the model again",
        )
    return None


def _head_size(node: NodeView, count: int) -> int | Refusal:
    """The head size of query and key, from the first shape that gives it."""
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
    return node.unknown(0, "the last size")


def _parts(w: Writer, count: int) -> list[Value] | Refusal:
    """Query, new key and new value, with the bias added."""
    node = w.node
    ranks = node.rank(0), node.rank(1)
    if ranks[0] == 5:
        return _bias_refusal(node) or _unpacked(w, w.x[0], 3)
    if ranks[1] == 5:
        return _bias_refusal(node) or [heads(w, w.x[0], count), *_unpacked(w, w.x[1], 2)]
    names = [w.x[0], w.x[1], w.x[2]]
    if node.input(3):
        widths = unrefused(_widths(node))
        biases = w.split(w.x[3], widths, 0)
        if ranks[1] == 4:  # keys and values of four dimensions are a cache, which has its bias
            biases = biases[:1]
        names[: len(biases)] = [w.Add(*pair) for pair in zip(names, biases, strict=False)]
    query = heads(w, names[0], count)
    return [
        query,
        *(name if ranks[1] == 4 else heads(w, name, count) for name in names[1:]),
    ]


def _bias_refusal(node: NodeView) -> Refusal | None:
    if not node.input(3):
        return None
    return Refusal(
        "packed inputs have a bias", "packed inputs without one", "add the bias before they are packed"
    )


def _widths(node: NodeView) -> list[int] | Refusal:
    """The widths of query, key and value within the bias."""
    query, bias = node.shape(0), node.shape(3)
    if not query or query[-1] is None or not bias or bias[0] is None:
        return node.unknown(0, "the last size")
    return [query[-1], query[-1], bias[0] - 2 * query[-1]]


def _unpacked(w: Writer, data: Value, count: int) -> list[Value]:
    """Splits (batch, length, heads, n, size) along the fourth dimension."""
    parts = w.split(data, [1] * count, 3)
    return [w.Transpose(w.Squeeze(part, axes=[3]), perm=[0, 2, 1, 3]) for part in parts]
