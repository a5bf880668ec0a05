"""Reads the granularity of a scale and its zero point: per tensor, per axis or per block.

https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html: a scalar (or one element) is for the whole tensor; a vector is
for `axis`; a scale of the data's rank is for blocks of `block_size` along `axis`, the last of which may be shorter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal
from trtsmith.converter.rewrite.engine.writer import Value, Writer


@dataclass(frozen=True)
class Granularity:
    """The granularity of a scale. `rank` and `size` (along `axis`) of the data are None if unknown and not needed."""

    kind: str  # "tensor", "axis" or "block"
    rank: int | None = None
    axis: int = 0
    size: int | None = None
    block: int = 0

    @property
    def divides(self) -> bool:
        """Whether all blocks are whole, as TensorRT requires, since it derives the block size from the shapes."""
        return self.kind != "block" or (self.size is not None and self.size % self.block == 0)

    def shaped(self, array: np.ndarray) -> np.ndarray:
        """Reshapes a constant scale or zero point to broadcast against the data."""
        if self.kind == "tensor":
            return array.reshape(())
        if self.kind == "axis":
            return array.reshape([-1 if i == self.axis else 1 for i in range(self.rank or 0)])
        return array.take(np.arange(self.size or 0) // self.block, self.axis)


def granularity(node: NodeView, data: int = 0, scale: int = 1) -> Granularity | Refusal:
    """Returns the granularity of a QuantizeLinear or DequantizeLinear: per tensor, per axis or in blocks."""
    constant = node.constant(scale)
    shape = constant.shape if constant is not None else node.shape(scale)
    if shape is None:
        return node.unknown(scale, "the rank")
    block = int(node.attributes.get("block_size") or 0)
    if not block and (not shape or (len(shape) == 1 and shape[0] == 1)):
        return Granularity("tensor")
    dims = node.shape(data)
    axis = int(node.attributes.get("axis", 1))
    if dims is None:
        return node.unknown(data, "the rank")
    if not -len(dims) <= axis < len(dims) or len(shape) != (len(dims) if block else 1):
        return Refusal(
            f"the scale has shape {list(shape)}, the data rank {len(dims)}, for axis {axis} and blocks of {block}",
            "a scale of one element, of one for each index of the axis, or of one for each block",
            "correct the scale or the axis where the model is exported",
        )
    axis %= len(dims)
    size, count = dims[axis], shape[axis] if block else shape[0]
    if size is not None and count is not None and count != (-(-size // block) if block > 0 else size):
        return Refusal(
            f"the scale has shape {list(shape)}, the data {size} along axis {axis}, for blocks of {block}",
            "a scale for each index of the axis, or for each block",
            "correct the scale or block_size where the model is exported",
        )
    return Granularity("block" if block else "axis", len(dims), axis, dims[axis], block)


def spread(w: Writer, grain: Granularity, index: int, to: str = "float32") -> Value:
    """Casts input `index`, a scale or zero point, to `to`, in a shape that broadcasts against the data, input 0."""
    node = w.node
    if grain.kind == "tensor" and node.dtype(index) == to and node.rank(index) == 0:
        return w.x[index]
    constant = node.constant(index)
    if constant is not None and (grain.kind != "block" or grain.size is not None):
        if grain.kind == "block":
            others = constant.size // max(constant.shape[grain.axis], 1)
            w.expect(
                f"scales for {grain.size:,} indices of an axis", nbytes=8 * (others + 1) * (grain.size or 0)
            )
        raw = w.constant(grain.shaped(constant.astype(np.float32)))
        return w.Cast(raw, to=to) if to != "float32" else raw
    raw = w.Cast(w.x[index], to=to)
    if grain.kind == "tensor":
        return raw if node.rank(index) == 0 else w.Squeeze(raw, axes=[0])
    if grain.kind == "axis":
        return w.unsqueeze(raw, [i for i in range(grain.rank or 0) if i != grain.axis])
    return w.Gather(raw, _block_of_each(w, grain), axis=grain.axis)


def _block_of_each(w: Writer, grain: Granularity) -> Value:
    """The block number of each index along the axis."""
    if grain.size is not None:
        return w.constant(w.numbers(grain.size) // grain.block)
    length = w.Gather(w.Shape(w.x[0]), grain.axis)
    return w.Div(w.Range(0, length, 1), grain.block)
