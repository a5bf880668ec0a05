"""The table of element types against ONNX itself."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from trtsmith.importers.dtypes import BITS, NUMBERS, WORDS, dtype_name, numpy_dtype, type_string


def test_every_type_of_onnx_has_a_row() -> None:
    assert set(NUMBERS.values()) == set(onnx.TensorProto.DataType.values()) - {onnx.TensorProto.UNDEFINED}


@pytest.mark.parametrize("number", NUMBERS.values())
def test_a_row_says_what_onnx_says(number: int) -> None:
    assert numpy_dtype(number) == helper.tensor_dtype_to_np_dtype(number) == numpy_dtype(dtype_name(number))
    assert WORDS[dtype_name(number)] == onnx.TensorProto.DataType.Name(number).lower()


@pytest.mark.parametrize("number", BITS)
def test_bits_are_those_of_raw_data(number: int) -> None:
    tensor = numpy_helper.from_array(np.zeros(8, numpy_dtype(number)))
    assert len(tensor.raw_data) == BITS[number]


def test_a_type_string_is_the_one_of_the_schemas() -> None:
    allowed = set(onnx.defs.get_schema("Cast", 25).type_constraints[0].allowed_type_strs)
    assert {type_string(number) for number in BITS} >= allowed - {"tensor(string)"} >= {"tensor(float)"}
