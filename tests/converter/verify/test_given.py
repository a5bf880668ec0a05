"""User data for a comparison: outputs of other types than the model's, and inputs outside of its profiles."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.options.shapes import InputSpec, ShapeRange
from trtsmith.converter.verify.given import check_indices, load_expected, profile_of
from trtsmith.importers.dtypes import NUMBERS, numpy_dtype

FLOATS = [1.0, 0.1, -3e4, float("inf"), float("nan"), 0.0]


def expected(array: np.ndarray, dtype: str) -> np.ndarray:
    output = helper.make_tensor_value_info("y", NUMBERS[dtype], None)
    return load_expected({"y": array}, [output])["y"]


@pytest.mark.parametrize("declared", ["float16", "float32", "float64", "bfloat16"])
@pytest.mark.parametrize("given", ["float16", "float32", "float64", "bfloat16"])
def test_floats_become_the_models(given: str, declared: str) -> None:
    array = np.array(FLOATS).astype(numpy_dtype(given))
    found = expected(array, declared)
    assert found.dtype == numpy_dtype(declared)
    wanted = array.astype(numpy_dtype(declared)).astype(np.float64)  # numpy's tests know no NaN of bfloat16
    np.testing.assert_array_equal(found.astype(np.float64), wanted)


@pytest.mark.parametrize(
    ("given", "declared"),
    [
        (np.array([1, -2], np.int64), "int32"), (np.array([1, 0], np.uint8), "bool"), (np.array([True, False]), "int64"),
        (np.array([7], np.int32), "uint8"), (np.array([1, 2.5], ml_dtypes.bfloat16).view("V2"), "bfloat16"),
        (np.array([1, 2.5], ml_dtypes.float8_e4m3fn).view("V1"), "float8_e4m3fn"),
        (np.array(["a"], object), "object"),
    ],
)  # fmt: skip
def test_values_that_fit_become_the_models(given: np.ndarray, declared: str) -> None:
    found = expected(given, declared)
    assert found.dtype == numpy_dtype(declared)
    assert given.dtype.kind == "V" or np.array_equal(found, given)


@pytest.mark.parametrize(
    ("given", "declared", "said"),
    [
        (np.array([1, 2], np.int64), "float32", "is int64, and the model's is float32"),
        (np.array([True]), "float16", "is bool, and the model's is float16"),
        (np.array([1.0]), "int64", "is float64, and the model's is int64"),
        (np.array([300]), "uint8", "is int64, and the model's is uint8"),
        (np.array([-1], np.int8), "uint64", "is int8, and the model's is uint64"),
        (np.array([2], np.uint8), "bool", "is uint8, and the model's is bool"),
        (np.array([1 + 1j]), "float32", "is complex128, and the model's is float32"),
        (np.array(["a"]), "float32", "is <U1, and the model's is float32"),
        (np.array([1.0]).view("V8"), "float32", "is |V8, and the model's is float32"),
        (np.array([1.0, 7e4]), "float16", "has values that float16 does not hold: 70000.0"),
        (np.array([-1e39]), "bfloat16", "has values that bfloat16 does not hold: -1e+39"),
    ],
)
def test_others_are_refused(given: np.ndarray, declared: str, said: str) -> None:
    with pytest.raises(UsageError) as error:
        expected(given, declared)
    (problem,) = error.value.problems
    assert said in problem.what and problem.where == "--expected: given arrays"


def test_an_output_of_unknown_type_is_left_as_it_is() -> None:
    output = helper.make_tensor_value_info("y", TensorProto.UNDEFINED, None)
    assert load_expected({"y": np.ones(2, np.int8)}, [output])["y"].dtype == np.int8


def test_outputs_of_other_names_get_a_line_of_numpy() -> None:
    """Where one way leads to each output: each problem has it. Else the array to add or to correct is named."""
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("y", ["n", 3]), ("z", [4]))
    ]
    y, z = np.ones((2, 3), np.float32), np.ones(4, np.float32)
    for given, fixes in (
        ({"out": y, "z": z}, ['expected={"y": expected["out"], "z": expected["z"]}'] * 2),
        ({"y": y, "z": z, "more": y}, ['expected={"y": expected["y"], "z": expected["z"]}']),
        ({"a": y, "b": y, "z": z}, ["it holds 'a', 'b', 'z': add it", *["correct or remove the array"] * 2]),
    ):
        with pytest.raises(UsageError) as error:
            load_expected(given, outputs)
        assert [problem.fix for problem in error.value.problems] == fixes


SPECS = [
    InputSpec("x", "float32", (None, 3), ("n", "")),
    InputSpec("k", "int64", (2,), ("",)),
    InputSpec("w", "float32", (3,), ("",)),
]
SMALL, LARGE = ShapeRange((1, 3), (2, 3), (4, 3)), ShapeRange((5, 3), (6, 3), (8, 3))
VALUES = {"k": ShapeRange((0, 0), (1, 1), (9, 9))}


def feeds(batch: int, k: int = 1) -> dict[str, np.ndarray]:
    return {"x": np.ones((batch, 3), np.float32), "k": np.array([1, k]), "w": np.ones(3, np.float32)}


@pytest.mark.parametrize(("batch", "number"), [(1, 0), (4, 0), (5, 1), (8, 1)])
def test_the_first_profile_that_takes_the_inputs(batch: int, number: int) -> None:
    assert profile_of(feeds(batch), SPECS, [{"x": SMALL}, {"x": LARGE}], VALUES, "") == number


@pytest.mark.parametrize(
    ("batch", "k", "said", "fix"),
    [
        (20, 1, "The shape [20, 3] of the input 'x' is outside", "--shapes x=1x3:2x3:20x3"),
        (0, 1, "The shape [0, 3] of the input 'x' is outside", "--shapes x=0x3:2x3:4x3"),
        (4, 10, "The values [1, 10] of the input 'k' are outside", "--values 'k=[0,0]:[1,1]:[9,10]'"),
    ],
)
def test_inputs_outside_of_every_profile_are_refused(batch: int, k: int, said: str, fix: str) -> None:
    with pytest.raises(UsageError) as error:
        profile_of(feeds(batch, k), SPECS, [{"x": SMALL}, {"x": SMALL}], VALUES, "--inputs x.npz")
    (problem,) = error.value.problems
    assert said in problem.what and fix in problem.fix
    assert problem.where.startswith("--inputs x.npz, input ")


def test_a_model_without_dynamic_inputs_has_one_profile() -> None:
    assert profile_of({"w": np.ones(3, np.float32)}, SPECS[2:], [{}], {}, "") == 0


@pytest.mark.parametrize(
    ("ids", "beyond"),
    [
        ([[0, 4]], ""),
        ([[-5, 1]], ""),
        ([[1, 5]], "ids[0, 1] is 5,"),
        ([[-6, 9]], "ids[0, 0] is -6,"),
        ([[3_000_000_000]], "3000000000"),
    ],
)
def test_indices_beyond_a_table_are_refused(ids: list[list[int]], beyond: str) -> None:
    weights = helper.make_tensor("table", TensorProto.FLOAT, [2, 5], [0.0] * 10)
    node = helper.make_node("Gather", ["table", "ids"], ["y"], axis=1)
    graph = helper.make_graph([node], "g", [], [], [weights])
    if not beyond:
        check_indices({"ids": np.array(ids)}, graph, "--inputs a.npz")
        return
    with pytest.raises(UsageError) as error:
        check_indices({"ids": np.array(ids)}, graph, "--inputs a.npz")
    (problem,) = error.value.problems
    assert beyond in problem.what and problem.what.endswith("'table' that it indexes has 5")
    assert problem.expected == "whole numbers from 0 to 4"
