"""Writes constant weights in the forms that TensorRT keeps quantized: int4 or int8 around zero, in whole blocks.

TensorRT-RTX 1.7.1 wants positive scales for int8, and takes any for constants of int4. A negative scale is a positive one of
the negated numbers; what a scale of zero stands for is zero.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.quantized.granularity import Granularity

BLOCKS = 21
"""First opset in which DequantizeLinear has blocks."""


def kept_quantized(
    steps: np.ndarray, scale: np.ndarray, grain: Granularity, bits: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """Returns `steps` (int32, without zero points) and `scale` in a form that TensorRT keeps quantized, with the same
    products.

    bits: of the numbers as they came; those of 8 bits are not packed into 4. None if they do not fit.
    """
    if not grain.divides:
        return None
    low, high = int(steps.min(initial=0)), int(steps.max(initial=0))
    if bits <= 4 and low >= -8 and high <= 7 and steps.size % 2 == 0:
        return steps.astype(np.int8).astype(ml_dtypes.int4), scale
    wide = scale.astype(np.float32)
    if not np.isfinite(wide).all():
        return None
    positive = np.where(wide == 0, np.float32(1), np.abs(wide)).astype(scale.dtype)
    if (wide <= 0).any():
        steps = steps * grain.shaped(np.sign(wide).astype(np.int32))
        low, high = int(steps.min(initial=0)), int(steps.max(initial=0))
    if low < -128 or high > 127:
        return None
    return steps.astype(np.int8), positive


def blocked(
    w: Writer, steps: np.ndarray, scale: np.ndarray, grain: Granularity, bits: int
) -> tuple[Value, str]:
    """Returns the value of `steps` (int32) times `scale` in blocks, in the scale's type, and a description of it."""
    kept = kept_quantized(steps, scale, grain, bits) if w.node.opset >= BLOCKS else None
    if kept is None:
        array = steps.astype(np.float32) * grain.shaped(scale.astype(np.float32))
        return w.constant(array.astype(scale.dtype)), f"dequantized weights of {bits} bits"
    value = w.DequantizeLinear(*kept, axis=grain.axis, block_size=grain.block)
    return value, f"weights of {kept[0].dtype} in blocks of {grain.block}"


def unpacked(packed: np.ndarray, bits: int) -> np.ndarray:
    """Unpacks uint8 [..., bytes] into [..., numbers], lowest bits first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    numbers = (packed[..., None] >> shifts) & np.uint8(2**bits - 1)
    return np.asarray(numbers.reshape(*packed.shape[:-1], -1))
