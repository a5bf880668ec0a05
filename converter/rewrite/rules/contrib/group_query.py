"""onnxruntime's GroupQueryAttention: a cache of keys and values, rotary embeddings, several queries for each key.

Of row b, seqlens_k[b] + 1 tokens count, and the new ones are the last of them: they go into the cache behind those that
were there, wherever that is, and what is behind them is zero, as onnxruntime's CPU provider leaves it. A first prompt
(as many new tokens as total_sequence_length) starts at the beginning. TensorRT's parser asks for a plugin that
TensorRT-RTX does not have.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.opset_forms import ints, split, unsqueeze
from trtsmith.converter.rewrite.rules.contrib.attention_forms import too_old
from trtsmith.converter.rewrite.rules.contrib.cache_forms import cached, places
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import float_type, number, unknown, unknown_type
from trtsmith.converter.rewrite.rules.contrib.rotary_forms import rotate

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


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    dtype = float_type(node)
    if dtype is None:
        return unknown_type(node)
    fault = too_old(node) or _unsupported(node)
    if fault is not None:
        return fault
    queries, keys = node.attributes["num_heads"], node.attributes["kv_num_heads"]
    width = (node.shape(0) or (None,))[-1]
    if width is None:
        return unknown(node, 0, "the last size")
    size = width // (queries if node.input(1) else queries + 2 * keys)
    half = (node.shape(7) or (None,))[-1]
    if node.attributes.get("do_rotary") and half is None:
        return unknown(node, 7, "the last size")
    lines = [_projections(node, queries, keys, size), places(node)]
    query, key = "query", "fresh_key"
    if node.attributes.get("do_rotary") and half is not None:
        query, key = "turned_query", "turned_key"
        interleaved = bool(node.attributes.get("rotary_interleaved"))
        for source, result in (("query", query), ("fresh_key", key)):
            lines.append(
                rotate(
                    result, source, "own", ("x7", "x8"), 2 * half, node.opset,
                    interleaved=interleaved, partial=2 * half != size,
                )
            )  # fmt: skip
    lines.append(cached(node, "present_key", key, 3, keys, size, dtype))
    lines.append(cached(node, "present_value", "fresh_value", 4, keys, size, dtype))
    lines += [
        f"y{i} = Identity ({name})" for i, name in ((1, "present_key"), (2, "present_value")) if node.used(i)
    ]
    lines.append(_attention(node, query, queries, keys, size, dtype))
    what = "a cache that is put together, two products and a Softmax"
    return Replacement(node.statements("\n".join(lines)), what, _notes(node))


def _notes(node: NodeView) -> tuple[str, ...]:
    window = node.attributes.get("local_window_size", -1)
    if window <= 0:
        return ()
    return (
        f"a token sees itself and the {window - 1} before it, as in onnxruntime 1.31: older releases let it see one more",
    )


def _projections(node: NodeView, queries: int, keys: int, size: int) -> str:
    """`query`, `fresh_key` and `fresh_value`, of shape (batch, heads, length, size)."""
    names, lines = ["x0", "x1", "x2"], []
    if not node.input(1):
        names = ["flat_q", "flat_k", "flat_v"]
        lines.append(split(names, "x0", [queries * size, keys * size, keys * size], 2, node.opset))
    heads = (queries, keys, keys)
    for result, name, count in zip(("query", "fresh_key", "fresh_value"), names, heads, strict=True):
        lines += [
            ints(f"{result}_split", [0, 0, count, size]),
            f"{result}_rows = Reshape ({name}, {result}_split)",
            f"{result} = Transpose <perm = [0, 2, 1, 3]> ({result}_rows)",
        ]
    return "\n".join(lines)


def _attention(node: NodeView, query: str, queries: int, keys: int, size: int, dtype: str) -> str:
    """With the queries of one key in a dimension of their own, over which keys and values broadcast."""
    scale = node.attributes.get("scale") or size**-0.5
    cap = node.attributes.get("softcap") or 0.0
    window = node.attributes.get("local_window_size", -1)
    behind = f"""
        {ints("window", [window], scalar=True)}
        oldest = Sub (own_column, window)
        after_oldest = Greater (slots, oldest)
        is_old = Not (after_oldest)
        is_hidden = Or (is_ahead, is_old)
    """
    capped = f"""
        {number("cap", cap, dtype)}
        scaled_down = Div (scores, cap)
        bent = Tanh (scaled_down)
        bounded = Mul (bent, cap)
    """
    return f"""
        {ints("groups", [0, keys, queries // keys, -1, size])}
        grouped = Reshape ({query}, groups)
        {unsqueeze("shared_key", "present_key", [2], node.opset)}
        {unsqueeze("shared_value", "present_value", [2], node.opset)}
        turned = Transpose <perm = [0, 1, 2, 4, 3]> (shared_key)
        product = MatMul (grouped, turned)
        {number("scale", scale, dtype)}
        scores = Mul (product, scale)
        {capped if cap else "bounded = Identity (scores)"}
        {unsqueeze("own_column", "own", [1, 2, 4], node.opset)}
        is_ahead = Greater (slots, own_column)
        {behind if window > 0 else "is_hidden = Identity (is_ahead)"}
        {number("lowest", -65504.0 if dtype == "float16" else -3.0e38, dtype)}
        masked = Where (is_hidden, lowest, bounded)
        weights = Softmax <axis = 4> (masked)
        attended = MatMul (weights, shared_value)
        {ints("ungrouped", [0, queries, -1, size])}
        heads = Reshape (attended, ungrouped)
        rows = Transpose <perm = [0, 2, 1, 3]> (heads)
        {ints("joined", [0, 0, queries * size])}
        y0 = Reshape (rows, joined)
    """


CONTRIB_GROUP_QUERY = NodeRule(
    "contrib-group-query",
    "onnxruntime's GroupQueryAttention becomes a cache that is put together, two products and a Softmax",
    ("com.microsoft::GroupQueryAttention",),
    _rewrite,
)
