"""Rewrites Col2Im, which TensorRT does not import: spreads each block with zeros, shifts it to its place, and adds.

Image and block decompose by axes, so that a block of h x w needs h + w shifted copies and not h * w.
"""

from __future__ import annotations

import math
from shlex import quote

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Value, Writer


@node_rule("col2im", "Col2Im")
def col2im_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites Col2Im as a sum of shifted copies."""
    image, block = node.constant(1), node.constant(2)
    shape = node.known_shape(0)
    if image is None or block is None:
        name = node.input(1 if image is None else 2)
        return Refusal(
            f"the shape {name!r} is computed at run time",
            "a constant",
            f"freeze it: --freeze {quote(name)}=VALUES",
        )
    if shape[1] is None:
        return node.unknown(0, "the second size")
    count = len(block)
    dilations = node.attributes.get("dilations") or [1] * count
    strides = node.attributes.get("strides") or [1] * count
    pads = node.attributes.get("pads") or [0] * (2 * count)
    sizes = [int(n) + pads[i] + pads[i + count] for i, n in enumerate(image)]
    # Blocks along each axis.
    steps = [(sizes[i] - (int(block[i]) - 1) * dilations[i] - 1) // strides[i] + 1 for i in range(count)]
    channels = shape[1] // math.prod(int(k) for k in block)
    w = Writer(node)
    data = w.Reshape(w.x[0], shape=[0, channels, *(int(k) for k in block), *steps])
    for i in reversed(range(count)):
        data = _along(w, data, i, int(block[i]), steps[i], strides[i], dilations[i], sizes[i])
    ends = [pads[i] + int(image[i]) for i in range(count)]
    cut = w.slice(data, pads[:count], ends, list(range(2, 2 + count))) if any(pads) else data
    return Replacement(w.finish(cut), "Col2Im as a sum of shifted copies")


def _along(
    w: Writer, data: Value, i: int, taps: int, steps: int, stride: int, dilation: int, size: int
) -> Value:
    """Sums over the block's axis i, which goes. data: [N, C, block axes 0..i, steps 0..i, finished axes].

    With i block axes left, axis 2 + i is the block's and 2 + 2 * i + 1 that of the steps.
    """
    rank = _rank_of(w, i)
    w.expect(f"a block of {taps:,}", nodes=12 * taps)
    parts = []
    for t in range(taps):
        part = w.Gather(data, t, axis=2 + i)  # [N, C, i block axes, i + 1 steps, ...]
        axis = 2 + 2 * i
        if stride > 1:
            part = _with_zeros(w, part, axis, rank, steps, stride)
        begin = t * dilation
        pads = [0] * (2 * rank)
        pads[axis], pads[rank + axis] = begin, size - begin - ((steps - 1) * stride + 1)
        parts.append(w.pad(part, pads))
    return w.Sum(*parts) if taps > 1 else parts[0]


def _rank_of(w: Writer, i: int) -> int:
    """The rank after the block's axis i is gone: batch, channels, i block axes, and all spatial ones."""
    block = w.node.constant(2)
    assert block is not None
    return 2 + i + len(block)


def _with_zeros(w: Writer, data: Value, axis: int, rank: int, steps: int, stride: int) -> Value:
    """Puts stride - 1 zeros between neighbours along an axis."""
    spread = w.Unsqueeze(data, axes=[axis + 1])
    pads = [0] * (2 * (rank + 1))
    pads[rank + 1 + axis + 1] = stride - 1
    spread = w.pad(spread, pads)
    # 0 keeps what stands before the axis; what follows it stands one place further and has to be named.
    merged = w.Shape(data)
    before = w.Slice(merged, [0], [axis])
    after = w.Slice(merged, [axis + 1], [rank])
    flat = w.Reshape(spread, w.Concat(before, [steps * stride], after, axis=0))
    return w.slice(flat, [0], [(steps - 1) * stride + 1], [axis])
