"""Rewrites onnxruntime's GroupQueryAttention, with its key and value cache, rotary embeddings and shared keys.

Of row b, seqlens_k[b] + 1 tokens count, and the new ones are the last of them: they go into the cache behind those that
were there, wherever that is, and what is behind them is zero, as onnxruntime's CPU provider leaves it. A first prompt
(as many new tokens as total_sequence_length) starts at the beginning. TensorRT's parser asks for a plugin that
TensorRT-RTX does not have.
"""

from __future__ import annotations

from dataclasses import dataclass

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.contrib.attention import counted, heads, length, too_old, uneven
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import float_type
from trtsmith.converter.rewrite.rules.contrib.rotary import rotate


@dataclass(frozen=True)
class _CachePlaces:
    """Positions and lengths in the cache.

    before, own: by row, the tokens that were there, and the positions of the new ones.
    slots:       0, 1, ... of the cache; `count` of them. room: those of the past. new: the number of new tokens.
    """

    before: Value
    own: Value
    slots: Value
    count: Value
    room: Value
    new: Value


def _places(w: Writer, query: Value) -> _CachePlaces:
    zero, new = w.constant(0), length(w, query, 2)
    room = length(w, w.x[3], 2) if w.node.input(3) else zero
    total = w.Reshape(w.Cast(w.x[6], to="int64"), shape=[])
    count = w.Max(total, room)
    slots, steps = counted(w, count), counted(w, new)
    tokens = w.Add(w.Reshape(w.Cast(w.x[5], to="int64"), shape=[-1, 1]), 1)
    before = w.Where(w.Equal(new, total), zero, w.Sub(tokens, new))
    return _CachePlaces(before, w.Add(before, steps), slots, count, room, new)


def _cached(w: Writer, at: _CachePlaces, new: Value, index: int, keys: int, size: int, dtype: str) -> Value:
    """The updated cache: past (input `index`), new values, then zeros, gathered from their concatenation."""
    batch = w.Gather(w.Shape(new), [0])
    zeros = w.Expand(w.number(0.0, dtype), w.Concat(batch, [keys, 1, size], axis=0))
    row = w.Concat(*([w.x[index]] if w.node.input(index) else []), new, zeros, axis=2)
    moved = w.Add(at.slots, w.Sub(at.room, at.before))
    behind = w.Where(w.Less(at.slots, w.Add(at.before, at.new)), moved, w.Add(at.room, at.new))
    place = w.Where(w.Less(at.slots, at.before), at.slots, behind)
    shape = w.vector(batch, keys, w.Unsqueeze(at.count, axes=[0]), size)
    return w.GatherElements(row, w.Expand(w.Unsqueeze(place, axes=[1, 3]), shape), axis=2)


_PLAIN = {
    "causal": (1, None),
    "k_quant_type": ("NONE", "", None),
    "qk_output": (0, None),
    "sliding_window_cache": (0, None),
    "smooth_softmax": (0, -1, None),
    "v_quant_type": ("NONE", "", None),
}
"""Values of attributes that mean nothing special."""

_EXTRA = {
    9: "position_ids",
    10: "attention_bias",
    11: "head_sink",
    12: "k_scale",
    13: "v_scale",
    14: "q_norm_weight",
}


def _unsupported(node: NodeView) -> Refusal | None:
    fix = "export the model with MultiHeadAttention, or with ONNX's Attention (opset 23)"
    for name, plain in _PLAIN.items():
        if node.attributes.get(name) not in plain:
            return Refusal(f"{name} = {node.attributes[name]}", f"{name} = {plain[0]}", fix)
    for index, name in _EXTRA.items():
        if node.input(index):
            return Refusal(f"it has the input {name!r} ({node.input(index)!r})", "no such input", fix)
    if node.used(3):
        return Refusal("its output 'output_qk' is used", "output, present_key and present_value", fix)
    return None


@node_rule("contrib-group-query", "com.microsoft::GroupQueryAttention")
def contrib_group_query_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites onnxruntime's GroupQueryAttention as a cache update, two products and a Softmax."""
    dtype = float_type(node)
    fault = too_old(node) or _unsupported(node)
    if fault is not None:
        return fault
    queries, keys = node.attributes["num_heads"], node.attributes["kv_num_heads"]
    width = (node.shape(0) or (None,))[-1]
    if width is None:
        return node.unknown(0, "the last size")
    fault = uneven(node, queries, None) or uneven(node, keys, queries, "kv_num_heads")
    fault = fault or uneven(node, queries if node.input(1) else queries + 2 * keys, width)
    if fault is not None:
        return fault
    size = width // (queries if node.input(1) else queries + 2 * keys)
    if (fault := _rotary_fault(node)) is not None:
        return fault
    w = Writer(node)
    parts = (
        w.split(w.x[0], [queries * size, keys * size, keys * size], 2)
        if not node.input(1)
        else [w.x[0], w.x[1], w.x[2]]
    )
    counts = (queries, keys, keys)
    query, key, value = (heads(w, part, count, size) for part, count in zip(parts, counts, strict=True))
    at = _places(w, query)
    if node.attributes.get("do_rotary"):
        query, key = (_rotated(w, at, data, size) for data in (query, key))
    key, value = (_cached(w, at, x, index, keys, size, dtype) for x, index in ((key, 3), (value, 4)))
    result = _attention(w, at, query, key, value, queries, keys, size, dtype)
    nodes = w.finish(result, key, value)
    return Replacement(nodes, "a cache that is put together, two products and a Softmax", _notes(node))


def _rotary_fault(node: NodeView) -> Refusal | None:
    if not node.attributes.get("do_rotary"):
        return None
    if not (node.input(7) and node.input(8)):
        return Refusal(
            "do_rotary = 1 without the cos and sin tables",
            "the inputs 'cos_cache' and 'sin_cache'",
            "export the model again",
        )
    return node.unknown(7, "the last size") if (node.shape(7) or (None,))[-1] is None else None


def _rotated(w: Writer, at: _CachePlaces, data: Value, size: int) -> Value:
    """The queries or keys, turned by the tables of the node. size: of a head."""
    node = w.node
    turned = 2 * ((node.shape(7) or (None,))[-1] or 0)
    interleaved = bool(node.attributes.get("rotary_interleaved"))
    return rotate(w, data, at.own, (w.x[7], w.x[8]), turned, interleaved=interleaved, partial=turned != size)


def _notes(node: NodeView) -> tuple[str, ...]:
    window = node.attributes.get("local_window_size", -1)
    if window <= 0:
        return ()
    return (
        f"a token sees itself and the {window - 1} before it, as in onnxruntime 1.31: older releases let it see one more",
    )


def _attention(
    w: Writer,
    at: _CachePlaces,
    query: Value,
    key: Value,
    value: Value,
    queries: int,
    keys: int,
    size: int,
    dtype: str,
) -> Value:
    """Attention with a dimension for the queries that share a key, along which keys and values broadcast."""
    attributes = w.node.attributes
    scale = attributes.get("scale") or size**-0.5
    cap = attributes.get("softcap") or 0.0
    window = attributes.get("local_window_size", -1)
    grouped = w.Reshape(query, shape=[0, keys, queries // keys, -1, size])
    scores = w.MatMul(grouped, w.Transpose(w.Unsqueeze(key, axes=[2]), perm=[0, 1, 2, 4, 3]))
    scores = w.Mul(scores, w.number(scale, dtype))
    if cap:
        most = w.number(cap, dtype)
        scores = w.Mul(w.Tanh(w.Div(scores, most)), most)
    own = w.Unsqueeze(at.own, axes=[1, 2, 4])
    hidden = w.Greater(at.slots, own)
    if window > 0:
        hidden = w.Or(hidden, w.Not(w.Greater(at.slots, w.Sub(own, window))))
    lowest = w.number(-65504.0 if dtype == "float16" else -3.0e38, dtype)
    weights = w.Softmax(w.Where(hidden, lowest, scores), axis=4)
    attended = w.Reshape(w.MatMul(weights, w.Unsqueeze(value, axes=[2])), shape=[0, queries, -1, size])
    return w.Reshape(w.Transpose(attended, perm=[0, 2, 1, 3]), shape=[0, 0, queries * size])
