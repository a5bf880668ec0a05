"""CumProd by doubling where the axis has a known length, else by Scan: TensorRT has cumulative sums only.

After the step of width w every element is the product of its last 2w factors; log2(n) steps. Integers wrap as in a
sequential product, in which only the order of the factors differs. A reversed product is the mirror image.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.opset_forms import slice_
from trtsmith.converter.rewrite.engine.statement_writer import statements

_ALL = (1 << 63) - 1


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    rank, axis = node.rank(0), node.constant(1)
    if axis is None:
        return Refusal(
            f"the axis ({node.input(1)!r}) is computed at run time",
            "a constant axis",
            f"freeze it: --freeze {node.input(1)}=VALUE",
        )
    dtype = node.dtype(0)
    if not rank or dtype is None:
        return Refusal(
            f"the rank or type of {node.input(0)!r} is unknown",
            "a tensor of known rank and type",
            "run onnx.shape_inference on the model, or export it with shapes",
        )
    at = int(axis.reshape(-1)[0]) % rank
    reverse, exclusive = (bool(node.attributes.get(name)) for name in ("reverse", "exclusive"))
    size = (node.shape(0) or ())[at]
    one = np.array(1).astype(np.dtype(dtype))
    if size is None:
        nodes = statements(node, _by_scan(at, rank, reverse, exclusive), one=one, at=np.array([at]))
        return Replacement(nodes, "a Scan, as the length of the axis is known at run time only")
    body = _by_doubling(at, size, reverse, exclusive, node.opset)
    constants = {"one": one, "at": np.array([at]), "single": np.array([1])} if exclusive else {}
    return Replacement(statements(node, body, **constants), "products of doubled width")


def _by_doubling(axis: int, size: int, reverse: bool, exclusive: bool, opset: int) -> str:
    def join(result: str, outer: str, inner: str) -> str:
        """`outer` is the end where the product starts."""
        order = f"{inner}, {outer}" if reverse else f"{outer}, {inner}"
        return f"{result} = Concat <axis = {axis}> ({order})"

    def first(result: str, data: str, count: int) -> str:
        """The `count` elements where the product starts."""
        return slice_(result, data, [-count if reverse else 0], [_ALL if reverse else count], [axis], opset)

    def without(result: str, data: str, count: int) -> str:
        """All but those."""
        return slice_(result, data, [0 if reverse else count], [-count if reverse else _ALL], [axis], opset)

    def shifted(result: str, data: str, count: int) -> str:
        """All but the `count` at the other end."""
        return slice_(result, data, [count if reverse else 0], [_ALL if reverse else -count], [axis], opset)

    lines, current = [], "x0"
    if exclusive and size:
        lines += [
            "shape = Shape (x0)",
            "ones_shape = ScatterElements <axis = 0> (shape, at, single)",
            "ones = Expand (one, ones_shape)",
            shifted("before", "x0", 1),
            join("moved", "ones", "before"),
        ]
        current = "moved"
    width = 1
    while width < size:
        name = f"step{width}"
        lines += [
            first(f"{name}_first", current, width),
            without(f"{name}_rest", current, width),
            shifted(f"{name}_other", current, width),
            f"{name}_product = Mul ({name}_rest, {name}_other)",
            join(name, f"{name}_first", f"{name}_product"),
        ]
        current, width = name, 2 * width
    return "\n".join((*lines, f"y0 = Identity ({current})"))


def _by_scan(axis: int, rank: int, reverse: bool, exclusive: bool) -> str:
    """The state has the shape of one slice: all but the axis."""
    others = ", ".join(str(i) for i in range(rank) if i != axis)
    back = int(reverse)
    return f"""
        shape = Shape (x0)
        kept = Constant <value = int64[{rank - 1}] {{{others}}}> ()
        slice_shape = Gather <axis = 0> (shape, kept)
        start = Expand (one, slice_shape)
        last, y0 = Scan <
            num_scan_inputs = 1,
            scan_input_axes = [{axis}], scan_output_axes = [{axis}],
            scan_input_directions = [{back}], scan_output_directions = [{back}],
            body = step (product, factor) => (next, shown) {{
                next = Mul (product, factor)
                shown = Identity ({"product" if exclusive else "next"})
            }}
        > (start, x0)
    """


CUMULATIVE_PRODUCT = NodeRule(
    "cumulative-product",
    "CumProd by products of doubled width, or a Scan",
    ("CumProd",),
    _rewrite,
)
