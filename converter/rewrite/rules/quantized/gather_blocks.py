"""Rewrites onnxruntime's GatherBlockQuantized: dequantizes a table of 2, 4 or 8 bits in blocks, then gathers from it.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GatherBlockQuantized: uint8 data is
packed along the last axis, and its zero point is 2^(bits - 1) where none is given; that of the 4-bit types is zero.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.rules.quantized.granularity import Granularity
from trtsmith.converter.rewrite.rules.quantized.weights import blocked, unpacked

_NUMERICS = "an index outside of the table gives one of its entries, where onnxruntime gives zeros"


@node_rule("gather-blocks", "com.microsoft::GatherBlockQuantized")
def gather_block_quantized_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites GatherBlockQuantized as Gather from a dequantized table."""
    table, scale, zeros = node.constant(0), node.constant(2), node.constant(3)
    dtype = node.dtype(0)
    if (
        table is None
        or scale is None
        or (node.input(3) and zeros is None)
        or dtype not in ("uint8", "uint4", "int4")
    ):
        return Refusal(
            f"its table is {dtype or 'of unknown type'}, or computed at run time",
            "a constant table of uint8, uint4 or int4, with constant scales and zero points",
            "make them initializers of the model",
        )
    bits = int(node.attributes.get("bits") or 4) if dtype == "uint8" else 4
    numbers, middle = table, 0
    if dtype == "uint8":
        numbers, middle = unpacked(table, bits), 2 ** (bits - 1)
        zeros = None if zeros is None else unpacked(zeros, bits)[..., : scale.shape[-1]]
    block = int(node.attributes.get("block_size") or 128)
    axis = int(node.attributes.get("quantize_axis", 1)) % numbers.ndim
    grain = Granularity("block", numbers.ndim, axis, numbers.shape[axis], block)
    points = np.full(scale.shape, middle, np.int32) if zeros is None else zeros.astype(np.int32)
    w = Writer(node)
    values, how = blocked(w, numbers.astype(np.int32) - grain.shaped(points), scale, grain, bits)
    return Replacement(
        w.finish(w.Gather(values, w.x[1], axis=int(node.attributes.get("gather_axis", 0)))),
        f"Gather of {how}",
        numerics=_NUMERICS,
    )
