"""Rewrites CumProd by doubling if the axis has a known length, else by Scan, as TensorRT has cumulative sums only.

After the step of width w every element is the product of its last 2w factors; log2(n) steps. Integers wrap as in a
sequential product, in which only the order of the factors differs. A reversed product is the mirror image.
"""

from __future__ import annotations

from shlex import quote

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.importers.builder import TO_END


@node_rule("cumulative-product", "CumProd")
def cumulative_product_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites CumProd as products of doubling width, or as a Scan."""
    axis = node.constant(1)
    if axis is None or axis.size != 1:
        return Refusal(
            f"the axis ({node.input(1)!r}) is computed at run time, or has not one number",
            "a constant axis",
            f"freeze it: --freeze {quote(node.input(1))}=VALUE",
        )
    dtype, rank = node.known_dtype(0), node.known_rank(0)
    at = int(axis.reshape(-1)[0]) % rank
    reverse, exclusive = (bool(node.attributes.get(name)) for name in ("reverse", "exclusive"))
    size = (node.shape(0) or ())[at]
    one = np.array(1).astype(np.dtype(dtype))
    w = Writer(node)
    if size is None:
        nodes = w.finish(_by_scan(w, at, rank, one, reverse, exclusive))
        return Replacement(nodes, "a Scan, as the length of the axis is known only at run time")
    nodes = w.finish(_by_doubling(w, at, size, one, reverse, exclusive))
    return Replacement(nodes, "products of doubled width")


def _by_doubling(w: Writer, axis: int, size: int, one: np.ndarray, reverse: bool, exclusive: bool) -> Value:
    def cut(data: Value, start: int, end: int) -> Value:
        """The slice from `start` to `end`, counted from the end where the product starts."""
        if reverse:
            start, end = -end if end != TO_END else 0, -start if start else TO_END
        return w.slice(data, [start], [end], [axis])

    def join(outer: Value, inner: Value) -> Value:
        """Concatenates both parts; `outer` is at the end where the product starts."""
        return w.Concat(*((inner, outer) if reverse else (outer, inner)), axis=axis)

    current = w.x[0]
    if exclusive and size:
        ones_shape = w.ScatterElements(w.Shape(w.x[0]), [axis], [1], axis=0)
        current = join(w.Expand(one, ones_shape), cut(w.x[0], 0, -1))
    width = 1
    while width < size:
        product = w.Mul(cut(current, width, TO_END), cut(current, 0, -width))
        current, width = join(cut(current, 0, width), product), 2 * width
    return current


def _by_scan(w: Writer, axis: int, rank: int, one: np.ndarray, reverse: bool, exclusive: bool) -> Value:
    """A Scan whose state is the running product, of the shape of one slice."""

    def step(product: Value, factor: Value) -> list[Value]:
        longer = w.Mul(product, factor)
        return [longer, product if exclusive else longer]

    slice_shape = w.Gather(w.Shape(w.x[0]), [i for i in range(rank) if i != axis], axis=0)
    _, products = w.Scan(
        w.Expand(one, slice_shape),
        w.x[0],
        outputs=2,
        body=w.graph("(product, factor) => (next, shown)", step),
        num_scan_inputs=1,
        scan_input_axes=[axis],
        scan_output_axes=[axis],
        scan_input_directions=[int(reverse)],
        scan_output_directions=[int(reverse)],
    )
    return products
