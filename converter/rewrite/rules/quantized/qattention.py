"""onnxruntime's QAttention: an exact integer projection to query, key and value, then attention in float.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QAttention. What it writes are
MatMulIntegerToFloat and MultiHeadAttention, which other rules take.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import Example, NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import Writer
from trtsmith.converter.rewrite.rules.contrib.attention_forms import unstacked, write_present

_COPIED = ("num_heads", "scale", "mask_filter_value", "unidirectional")


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    for name in ("do_rotary", "past_present_share_buffer"):
        if node.attributes.get(name):
            return Refusal(
                f"{name} = {node.attributes[name]}", f"{name} = 0", "export the model without this fusion"
            )
    weights = node.shape(1)
    if not weights or weights[-1] is None:
        return Refusal("the size of its weights is not known", "constant weights", "make them initializers")

    w = Writer(node)
    given = [f"x{index}" if node.input(index) else "" for index in range(9)]
    projected = w.do(
        "com.microsoft::MatMulIntegerToFloat", "x0", "x1", "x3", "x4", given[6], given[7], given[2]
    )
    inputs = w.split(projected, [weights[-1] // 3] * 3, 2)
    if node.input(5) or node.input(8):
        inputs += ["", given[5]]
    if node.input(8):
        inputs += ["", *unstacked(w, "x8")]
    results = ["y0", "key", "value"] if node.used(1) else ["y0"]
    w.many("com.microsoft::MultiHeadAttention", inputs, results, **node.own(*_COPIED))
    if node.used(1):
        write_present(w, "key", "value")
    return Replacement(w.nodes(), "an integer projection, then attention of its parts")


_RNG = np.random.default_rng(2)


def _listed(array: np.ndarray) -> str:
    return ", ".join(str(value) for value in array.reshape(-1).tolist())


_TYPES = f"""int8[6, 24] w = {{{_listed(_RNG.integers(-60, 61, (6, 24)))}}},
         float[24] b = {{{_listed(_RNG.choice([-0.5, 0.25, 0.75], 24))}}}, float sx = {{0.02}}, float sw = {{0.03}},
         uint8 zx = {{121}}, int8 zw = {{3}}"""


def _example(name: str, attributes: str, more: str, inputs: str = "", builds: bool = True) -> Example:
    feeds = {"x": _RNG.integers(0, 256, (2, 3, 6)).astype(np.uint8)}
    if inputs:
        feeds["m"] = np.array([[1, 1, 0], [1, 0, 1]], np.int32)
    return Example(
        name,
        f"""<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
        g (uint8[2, 3, 6] x{inputs}) => (float[2, 3, 8] y)
        <{_TYPES}> {{
            y = com.microsoft.QAttention <num_heads = 2{attributes}> (x, w, b, sx, sw, {more}, zx, zw)
        }}""",
        feeds=feeds,
        rtol=1e-4,
        atol=1e-5,
        builds=builds,
        why="" if builds else "MultiHeadAttention with a mask is for another rule",
    )


_EXAMPLES = (
    _example("plain", "", '""'),
    _example("a mask of keys, ahead hidden", ", unidirectional = 1", "m", ", int32[2, 3] m", builds=False),
)

QATTENTION = NodeRule(
    "qattention",
    "QAttention becomes MatMulIntegerToFloat and MultiHeadAttention",
    ("com.microsoft::QAttention",),
    _rewrite,
    _EXAMPLES,
)
