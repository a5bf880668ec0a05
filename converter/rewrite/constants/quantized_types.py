"""Lists the element types of quantized constants that TensorRT accepts."""

from __future__ import annotations

from onnx import TensorProto as T

QUANTIZED = frozenset({T.INT8, T.UINT8, T.INT4, T.UINT4, T.FLOAT8E4M3FN, T.FLOAT8E5M2, T.FLOAT4E2M1})
"""Of these, uint8 and uint4 become int8 or others where TensorRT gets them (converter/rewrite/types)."""
