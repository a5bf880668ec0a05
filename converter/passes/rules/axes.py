"""Reductions, Squeeze and Unsqueeze whose axes are constant, yet in a form that TensorRT refuses."""

from __future__ import annotations

from converter.passes.node_rule import Example, NodeRule, NodeView, Refusal, Replacement
from converter.passes.opset_forms import reduce

_REDUCTIONS = tuple(
    f"Reduce{kind}"
    for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
)

_ATTRIBUTES = ("keepdims", "noop_with_empty_axes")


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    """Empty axes are a reduction over all, or none at all; TensorRT takes them for a mistake, and computed ones too."""
    if not node.input(1):
        return None
    axes = node.constant(1)
    if axes is None and node.producer(1) is not None:
        return None  # TensorRT may fold what makes them
    if axes is None:
        return Refusal(
            f"the axes ({node.input(1)!r}) are fed at run time",
            "constant axes",
            f"freeze them: --freeze {node.input(1)}=VALUES",
        )
    if axes.size:
        if not node.folded(1):
            return None
        rest = ", ".join(f"{name} = {node.attributes[name]}" for name in _ATTRIBUTES if node.given(name))
        body = f"y0 = {node.op_type} {f'<{rest}>' if rest else ''} (x0, axes)"
        return Replacement(
            node.statements(body, axes=axes), "the axes that the graph computes, as a constant"
        )
    if node.op_type not in _REDUCTIONS or node.attributes.get("noop_with_empty_axes"):
        return Replacement(node.statements("y0 = Identity (x0)"), "no axes: the values as they are")
    keep = bool(node.attributes["keepdims"])
    body = reduce(node.op_type, "y0", "x0", None, node.opset, keepdims=keep)
    return Replacement(node.statements(body), "no axes: all of them")


_EXAMPLES = (
    Example(
        "computed",
        """<ir_version: 8, opset_import: ["" : 18]>
        g (float[3, 4, 2] x) => (float[3, 1, 1] y)
        <int64 one = {1}> {
            shape = Shape (x)  rank = Size (shape)  axes = Range (one, rank, one)  y = ReduceMean (x, axes)
        }""",
    ),
    Example(
        "all",
        """<ir_version: 8, opset_import: ["" : 18]>
        g (float[3, 4] x) => (float[1, 1] y)
        <int64[0] axes = {}> { y = ReduceMax (x, axes) }""",
    ),
    Example(
        "none",
        """<ir_version: 8, opset_import: ["" : 18]>
        g (float[3, 4] x) => (float[3, 4] z)
        <int64[0] axes = {}> { y = ReduceSum <noop_with_empty_axes = 1> (x, axes)  z = Neg(y) }""",
    ),
)

AXES = NodeRule(
    "axes",
    "reductions, Squeeze and Unsqueeze get their axes in the form that TensorRT takes",
    (*_REDUCTIONS, "Squeeze", "Unsqueeze"),
    _rewrite,
    _EXAMPLES,
)
