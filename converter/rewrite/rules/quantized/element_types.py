"""Lists the element types of quantization, with their ranges."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import TensorProto

from trtsmith.converter.rewrite.engine.node_rule import NodeView
from trtsmith.importers.dtypes import dtype_name

RANGES: Mapping[str, tuple[int, int]] = {
    "int2": (-2, 1),
    "uint2": (0, 3),
    "int4": (-8, 7),
    "uint4": (0, 15),
    "int8": (-128, 127),
    "uint8": (0, 255),
    "int16": (-32768, 32767),
    "uint16": (0, 65535),
}
"""Smallest and largest value of the integer types."""

LOW_FLOATS = frozenset(
    (
        "float8_e4m3fn",
        "float8_e4m3fnuz",
        "float8_e5m2",
        "float8_e5m2fnuz",
        "float4_e2m1fn",
        "float6_e2m3fn",
        "float6_e3m2fn",
    )
)


def quantized_type(node: NodeView) -> str | None:
    """Returns the output type of a QuantizeLinear: the zero point's type, else `output_dtype`, else uint8. None if
    unknown.
    """
    if node.input(2):
        return node.dtype(2)
    number = node.attributes.get("output_dtype") or TensorProto.UINT8
    return dtype_name(int(number))


def all_equal(array: np.ndarray | None, value: int) -> bool:
    return array is not None and bool(np.all(array.astype(np.float32) == value))
