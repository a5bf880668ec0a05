"""Outputs that no input decides and that are transposed and then reshaped: an Identity behind them, for TensorRT-RTX.

TensorRT-RTX 1.6.1 makes a constant of such an output and loses the transposition, wherever the reshaping could as well
come before it: splits an axis, adds one of length 1, joins axes that were neighbours (seen on an H200, in float32,
float16, int32, int64 and bool). Nodes that read the output get wrong values too, those that read the value behind which
an Identity stands get right ones.
"""

from __future__ import annotations

import numpy as np

from converter.passes.node_rule import Example, NodeRule, NodeView, Replacement

_IN_PLACE = ("Reshape", "Unsqueeze", "Squeeze", "Flatten", "Expand", "Slice", "Concat", "Tile", "Pad")
"""Operators that leave the order of the elements as it is, if not always."""

_WRONG = "TensorRT-RTX 1.6.1 loses the transposition of an output that no input decides: an Identity comes behind it"


def _rewrite(node: NodeView) -> Replacement | None:
    if not node.returned(0) or not _transposed(node) or not node.fixed():
        return None
    copy = type(node.proto)()
    copy.CopyFrom(node.proto)
    copy.output[0] = node.fresh("value")
    identity = node.statements("y0 = Identity (value)", value=copy.output[0])
    return Replacement([copy, *identity], "an Identity behind it", notes=(_WRONG,))


def _transposed(node: NodeView) -> bool:
    """Whether a Transpose is above the node, with nothing but moved elements in between."""
    queue, seen = list(node.inputs), set(node.inputs)
    while queue:
        name = queue.pop()
        if "Transpose" in node.folded_by(name):  # as it is, TensorRT sees it computed
            return True
        maker = node.producer_of(name)
        if maker is None or maker.domain not in ("", "ai.onnx"):
            continue
        if maker.op_type == "Transpose":
            return True
        if maker.op_type in (*_IN_PLACE, "Identity"):
            queue += [name for name in maker.input if name not in seen]
            seen.update(maker.input)
    return False


def _example(name: str, made: str, shape: str, more: str = "") -> Example:
    weights = ", ".join(f"{value:g}" for value in np.random.default_rng(3).permutation(24) - 9.5)
    return Example(
        name,
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[3] x) => (float{shape} c, float[3] y{", float" + shape + " d" if more else ""})
        <float[2, 3, 4] w = {{{weights}}}, int64[4] split = {{3, 2, 2, 2}}, int64[2] joined = {{12, 2}},
         int64[1] axis = {{1}}> {{
            {made}
            y = Relu (x)
            {more}
        }}""",
    )


_TURNED = "t = Transpose <perm = [1, 0, 2]> (w)"

CONSTANT_OUTPUTS = NodeRule(
    "constant-outputs",
    "outputs that no input decides, transposed and then reshaped",
    _IN_PLACE,
    _rewrite,
    (
        _example("an axis in two", f"{_TURNED} c = Reshape (t, split)", "[3, 2, 2, 2]"),
        _example(
            "two axes in one", "t = Transpose <perm = [1, 2, 0]> (w) c = Reshape (t, joined)", "[12, 2]"
        ),
        _example(
            "an axis more",
            f"v = Neg (w) {_TURNED.replace('(w)', '(v)')} c = Unsqueeze (t, axis)",
            "[3, 1, 2, 4]",
        ),
        _example("read as well", f"{_TURNED} c = Unsqueeze (t, axis)", "[3, 1, 2, 4]", "d = Neg (c)"),
        _example(
            "joined with nothing",
            f"{_TURNED} u = Unsqueeze (t, axis) c = Concat <axis = 0> (u)",
            "[3, 1, 2, 4]",
        ),
    ),
)
