"""Keeps quantized constants in a form that TensorRT accepts: read by DequantizeLinear only."""

from trtsmith.converter.rewrite.constants.moved import fold_moves
from trtsmith.converter.rewrite.constants.through_dequantize import dequantize_constants

__all__ = ["dequantize_constants", "fold_moves"]
