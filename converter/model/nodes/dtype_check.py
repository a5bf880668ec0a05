"""Checks attributes that name an element type: the number must be one of onnx.TensorProto.DataType."""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from trtsmith.importers.dtypes import NUMBERS
from trtsmith.importers.problem import Problem

_NAMES = ("to", "dtype", "output_dtype", "output_datatype")
_OPTIONAL = "output_dtype"
"""Where 0 stands for a type that other inputs decide."""

_TYPES = frozenset(NUMBERS.values())


def check_dtypes(node: onnx.NodeProto, where: str) -> Iterator[Problem]:
    """Problems of an operator of ONNX's that is told a type in an attribute."""
    for attribute in node.attribute:
        names_type = attribute.name in _NAMES and attribute.type == onnx.AttributeProto.INT
        if not names_type or attribute.ref_attr_name or attribute.i in _TYPES:
            continue
        if attribute.name == _OPTIONAL and attribute.i == 0:
            continue
        what = f"The attribute {attribute.name!r} is {attribute.i}."
        expected = f"the number of a type of onnx.TensorProto, 1 to {max(_TYPES)}"
        yield Problem(what, where, expected, "correct the node where the model is exported")
