"""Outputs that only show elements of another value: an Identity behind them, for TensorRT-RTX.

Two faults of TensorRT-RTX 1.6.1, both seen on an H200 and both gone with the Identity:

- Of an output that no input decides, transposed and then reshaped, it makes a constant and loses the transposition,
  wherever the reshaping could as well come before it. Nodes that read the output get the wrong values too.
- Of several views of a value (parts of a Split, slices, reshapings, a Cast that is read on), it leaves some unwritten
  where other views are computed with: the caller finds what was in the memory before.
"""

from __future__ import annotations

import numpy as np
import onnx

from converter.passes.node_rule import Example, NodeRule, NodeView, Replacement

_IN_PLACE = ("Reshape", "Unsqueeze", "Squeeze", "Flatten", "Expand", "Slice", "Concat", "Tile", "Pad")
"""Operators that leave the order of the elements as it is, if not always."""

_VIEWS = ("Reshape", "Unsqueeze", "Squeeze", "Flatten", "Slice", "Transpose", "Cast")

_LOST = "TensorRT-RTX 1.6.1 loses the transposition of an output that no input decides: an Identity comes behind it"
_UNWRITTEN = (
    "TensorRT-RTX 1.6.1 leaves some outputs unwritten that are views of a value: an Identity comes behind it"
)


def _rewrite(node: NodeView) -> Replacement | None:
    returned = [index for index in range(len(node.outputs)) if node.returned(index)]
    if not returned:
        return None
    if _is_shared_view(node):
        note = _UNWRITTEN
    elif node.op_type in _IN_PLACE and _transposed(node) and node.fixed():
        note = _LOST
    else:
        return None
    copy = onnx.NodeProto()
    copy.CopyFrom(node.proto)
    nodes = [copy]
    for index in returned:
        copy.output[index] = node.fresh("value")
        nodes += node.statements(f"y{index} = Identity (value)", value=copy.output[index])
    return Replacement(nodes, "an Identity behind it", notes=(note,))


def _is_shared_view(node: NodeView) -> bool:
    """Whether others read what the node shows, or its output."""
    if node.op_type == "Split":
        return True
    return node.op_type in _VIEWS and (node.uses(node.input(0)) > 1 or node.uses(node.output(0)) > 1)


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


def _fixed(name: str, made: str, shape: str, more: str = "") -> Example:
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


def _shared(name: str, signature: str, body: str) -> Example:
    return Example(name, f'<ir_version: 8, opset_import: ["" : 17]> g {signature} {{ {body} }}')


_TURNED = "t = Transpose <perm = [1, 0, 2]> (w)"

VIEW_OUTPUTS = NodeRule(
    "view-outputs",
    "outputs that are views of a value that others read, or transposed constants in another shape",
    (*_IN_PLACE, "Transpose", "Cast", "Split"),
    _rewrite,
    (
        _fixed("an axis in two", f"{_TURNED} c = Reshape (t, split)", "[3, 2, 2, 2]"),
        _fixed("two axes in one", "t = Transpose <perm = [1, 2, 0]> (w) c = Reshape (t, joined)", "[12, 2]"),
        _fixed(
            "an axis more",
            f"v = Neg (w) {_TURNED.replace('(w)', '(v)')} c = Unsqueeze (t, axis)",
            "[3, 1, 2, 4]",
        ),
        _fixed("read as well", f"{_TURNED} c = Unsqueeze (t, axis)", "[3, 1, 2, 4]", "d = Neg (c)"),
        _fixed(
            "joined with nothing",
            f"{_TURNED} u = Unsqueeze (t, axis) c = Concat <axis = 0> (u)",
            "[3, 1, 2, 4]",
        ),
        _shared(
            "parts of a split",
            "(float[6] x) => (float[5] a, float[1] p, float[1, 1] q) <int64[2] parts = {5, 1}, int64[1] axis = {-1}>",
            "a, b = Split <axis = 0> (x, parts) p = Sqrt (b) s = Softmax <axis = 0> (b) q = Unsqueeze (s, axis)",
        ),
        _shared(
            "two reshapings of a slice",
            """(int32[6] x, int32[3] n) => (int32[5] a, int32[3] p)
            <int64[1] one = {1}, int64[1] six = {6}, int64[2] column = {-1, 1}, int64[1] row = {-1},
             int64[3, 2] where = {0, 0, 0, 0, 0, 0}>""",
            """s = Slice (x, one, six) a = Reshape (s, row) c = Reshape (s, column)
            g = GatherND (c, where) p = Add (g, n)""",
        ),
        _shared(
            "a cast that is read on",
            "(float[4, 6] x) => (float16[4, 6] h, float16[4, 6] s) ",
            "h = Cast <to = 10> (x) s = Sign (h)",
        ),
    ),
)
