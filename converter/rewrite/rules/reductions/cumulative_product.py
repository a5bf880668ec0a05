"""Rewrites CumProd by doubling where the axis has a known length, else by Scan: TensorRT has cumulative sums only.

After the step of width w every element is the product of its last 2w factors; log2(n) steps. Integers wrap as in a
sequential product, in which only the order of the factors differs. A reversed product is the mirror image.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import Writer, statements
from trtsmith.importers.builder import TO_END


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    rank, axis = node.rank(0), node.constant(1)
    if axis is None or axis.size != 1:
        return Refusal(
            f"the axis ({node.input(1)!r}) is computed at run time, or has not one number",
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
    w = Writer(node)
    _write_by_doubling(w, at, size, one, reverse, exclusive)
    return Replacement(w.nodes(), "products of doubled width")


def _write_by_doubling(
    w: Writer, axis: int, size: int, one: np.ndarray, reverse: bool, exclusive: bool
) -> None:
    def cut(data: str, start: int, end: int) -> str:
        """Slices from `start` to `end`, counted from where the product starts."""
        if reverse:
            start, end = -end if end != TO_END else 0, -start if start else TO_END
        return w.slice_(data, [start], [end], [axis])

    def join(outer: str, inner: str) -> str:
        """`outer` is the end where the product starts."""
        return w.concat([inner, outer] if reverse else [outer, inner], axis)

    current = "x0"
    if exclusive and size:
        ones_shape = w.do("ScatterElements", w.do("Shape", "x0"), w.ints(axis), w.ints(1), axis=0)
        current = join(w.do("Expand", one, ones_shape), cut("x0", 0, -1))
    width = 1
    while width < size:
        product = w.do("Mul", cut(current, width, TO_END), cut(current, 0, -width))
        current, width = join(cut(current, 0, width), product), 2 * width
    w.do("Identity", current, result="y0")


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
