"""Prepares constants for TensorRT: quantized ones for DequantizeLinear only, large ones generated from small ones."""

from trtsmith.converter.rewrite.constants.generated import fold_generated
from trtsmith.converter.rewrite.constants.moved import fold_moves
from trtsmith.converter.rewrite.constants.through_dequantize import dequantize_constants

__all__ = ["dequantize_constants", "fold_generated", "fold_moves"]
