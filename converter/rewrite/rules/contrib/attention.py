"""onnxruntime's Attention: the projection to query, key and value, and their attention.

TensorRT takes it for ONNX's operator of that name, whose inputs are others, so that it always becomes standard operators.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import Example, NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import Writer
from trtsmith.converter.rewrite.rules.contrib.attention_forms import (
    added_to_scores,
    attend,
    behind,
    heads,
    too_old,
    unstacked,
    write_present,
)
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import float_type, unknown, unknown_type


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    dtype = float_type(node)
    if dtype is None:
        return unknown_type(node)
    fault = too_old(node) or _unsupported(node)
    if fault is not None:
        return fault
    count = node.attributes["num_heads"]
    sizes = _sizes(node)
    if isinstance(sizes, Refusal):
        return sizes
    scale = node.attributes.get("scale") or (sizes[0] // count) ** -0.5
    w = Writer(node)
    product = w.do("MatMul", "x0", "x1")
    projected = w.do("Add", product, "x2") if node.input(2) else w.do("Identity", product)
    query, new_key, new_value = (heads(w, part, count) for part in w.split(projected, sizes, 2))
    key, value, past = behind(w, unstacked(w, "x4") if node.input(4) else None, new_key, new_value)
    if node.used(1):
        write_present(w, key, value)
    added = added_to_scores(w, 3, query, key, past, dtype)
    if isinstance(added, Refusal):
        return added
    attend(w, query, key, value, scale, added, dtype)
    return Replacement(w.nodes(), "a projection and the attention of its parts")


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
    """Widths of query, key and value."""
    given = node.attributes.get("qkv_hidden_sizes") or []
    if len(given) == 3:
        return list(given)
    weights = node.shape(1)
    total = weights[-1] if weights else None
    return unknown(node, 1, "the last size") if total is None else [total // 3] * 3


def _example(
    name: str, attributes: str, inputs: str, call: str, outputs: str = "float[2, 3, 8] y",
    results: str = "y", feeds: dict[str, np.ndarray] | None = None, opset: int = 17,
) -> Example:  # fmt: skip
    return Example(
        name,
        f"""<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1]>
        g (float[2, 3, 6] x, float[6, 24] w{inputs}) => ({outputs}) {{
            {results} = com.microsoft.Attention <num_heads = 2{attributes}> (x, w{call})
        }}""",
        feeds=feeds,
        scale=0.2,
        rtol=1e-4,
        atol=1e-5,
    )


def _mask(*values: object) -> dict[str, np.ndarray]:
    return {"m": np.array(values, np.int32)}


_PAST = "float[2, 2, 2, 4, 4] p"
_PRESENT = "float[2, 3, 8] y, float[2, 2, 2, 7, 4] now"
_EXAMPLES = (
    _example("plain", "", ", float[24] b", ", b"),
    _example("a scale, ahead hidden", ", scale = 0.3, unidirectional = 1", ", float[24] b", ", b", opset=11),
    _example("other widths", ", qkv_hidden_sizes = [6, 6, 12]", ", float[24] b", ", b", "float[2, 3, 12] y"),
    _example("mask of keys", "", ", float[24] b, int32[2, 3] m", ", b, m", feeds=_mask([1, 1, 0], [1, 0, 1])),
    _example(
        "mask of queries and keys",
        ", mask_filter_value = -2.5",
        ", float[24] b, int32[2, 3, 3] m",
        ", b, m",
        feeds=_mask([[1, 1, 0], [1, 0, 1], [0, 0, 0]], [[1, 1, 1], [0, 1, 1], [1, 0, 0]]),
    ),
    _example(
        "mask and a sum",
        "",
        ", float[24] b, int32[2, 3] m, float[1, 2, 3, 3] a",
        ", b, m, , a",
        feeds=_mask([1, 1, 0], [0, 1, 1]),
    ),
    _example("lengths", ", unidirectional = 1", ", float[24] b, int32[2] m", ", b, m", feeds=_mask(2, 3)),
    _example("ends and starts", "", ", float[24] b, int32[4] m", ", b, m", feeds=_mask(2, 3, 1, 0)),
    _example(
        "past and present",
        ", unidirectional = 1",
        f", float[24] b, int32[2, 7] m, {_PAST}",
        ", b, m, p",
        _PRESENT,
        "y, now",
        _mask([1, 1, 0, 1, 1, 1, 1], [0, 1, 1, 1, 0, 1, 1]),
    ),
    _example("past without a mask", "", f", float[24] b, {_PAST}", ", b, , p", _PRESENT, "y, now", opset=12),
)

CONTRIB_ATTENTION = NodeRule(
    "contrib-attention",
    "onnxruntime's Attention becomes a projection, two products and a Softmax",
    ("com.microsoft::Attention",),
    _rewrite,
    _EXAMPLES,
)
