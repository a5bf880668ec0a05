"""Keeps quantized constants in a form in which TensorRT takes them: each read by DequantizeLinear alone."""

from trtsmith.converter.rewrite.constants.moved import fold_moves
from trtsmith.converter.rewrite.constants.through_dequantize import dequantize_constants

__all__ = ["dequantize_constants", "fold_moves"]
