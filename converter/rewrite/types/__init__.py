"""Legalises element types: holds values of types that TensorRT does not compute in in legal types.

    from trtsmith.converter.rewrite.types import legalise_types
    done = legalise_types(graph)      # in place; types are inferred, before and afterwards
    done.rewrites, done.io_types

It runs after the rules, which read ONNX's own types, and before the rules run a second time on what it made. So a rule
may write Cast, CastLike, Constants and arithmetic in any ONNX type: this pass legalises them. Whoever adds an operator
with arithmetic that can leave a type's range adds it to a table in `operators.py`.

| ONNX type | legal type | why it is exact |
|---|---|---|
| float64 | float32 | it is not: a `numerics` sentence says so |
| uint8, int16, uint16, int4, uint4, int2, uint2 | int32 | arithmetic modulo 2**32, brought back into the range after it |
| uint32 | int64 | the same modulo 2**64 |
| uint64 | int64 | the same bits; order, division and conversion to float are corrected (`unsigned64.py`) |
| float8 of all kinds, float4e2m1, float8e8m0 | float32 | holds all their values; a Cast to them rounds (`small_floats.py`) |

int8 stays int8, as TensorRT moves and casts it: only a node that TensorRT does not take in int8 is computed in int32,
between two Casts. What QuantizeLinear makes and DequantizeLinear reads keeps its type, so that TensorRT finds its
quantized layers. A uint8 input or output of the graph stays uint8, with a Cast next to it, as TensorRT wants it; other
inputs and outputs get the legal type, and an IoType says so. Their values are cast as numpy's astype does it: by
value, and uint64 by its bits (`to_engine`, `to_model`).
"""

from trtsmith.converter.rewrite.types.io_types import IoType, to_engine, to_model
from trtsmith.converter.rewrite.types.retype import Legalisation, legalise_types

__all__ = ["IoType", "Legalisation", "legalise_types", "to_engine", "to_model"]
