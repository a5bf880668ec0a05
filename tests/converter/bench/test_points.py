"""The shapes at which an engine is timed, and the reasons where it cannot be."""

from __future__ import annotations

import numpy as np
import pytest

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.options.shapes import parse_shapes
from trtsmith.converter.bench.points import Point, given_point, points_of
from trtsmith.converter.engine.builder.build_request import Profile
from trtsmith.converter.engine.runtime.tensors import EngineInfo, TensorSpec
from trtsmith.converter.rewrite.types import IoType

IMAGES = TensorSpec(
    "images", "float32", (-1, 3, 8, 8), True, profiles=(Profile((1, 3, 8, 8), (2, 3, 8, 8), (4, 3, 8, 8)),)
)
SIZES = TensorSpec("sizes", "int64", (2,), True, True, (Profile((1, 2), (3, 4), (5, 6), True),))
FIXED = TensorSpec("scale", "float16", (5,), True)


def info(*inputs: TensorSpec) -> EngineInfo:
    return EngineInfo("tensorrt_rtx", "1.7.1.116", "G", "9.0", inputs, (), 1, 1024)


def test_points_of_the_profile() -> None:
    made = points_of(info(IMAGES, SIZES, FIXED), ("min", "max"), {})
    assert [point.label for point in made] == ["min", "max"]
    assert [point.feeds["images"].shape for point in made] == [(1, 3, 8, 8), (4, 3, 8, 8)]
    assert [point.feeds["sizes"].tolist() for point in made] == [[1, 2], [5, 6]]
    assert [point.batch() for point in made] == [1, 4]
    assert made[1].sizes() == {"images": [4, 3, 8, 8], "sizes": [5, 6], "scale": [5]}
    for point in made:
        assert {n: str(a.dtype) for n, a in point.feeds.items()} == {
            "images": "float32",
            "sizes": "int64",
            "scale": "float16",
        }
        assert np.count_nonzero(point.feeds["images"]) == point.feeds["images"].size


def test_an_engine_without_dynamic_shapes_has_one_point() -> None:
    assert [point.label for point in points_of(info(FIXED), ("min", "opt", "max"), {})] == ["opt"]


def test_shapes_of_the_user_and_usual_ones_for_the_rest() -> None:
    (point,) = points_of(info(IMAGES, SIZES), ("opt",), parse_shapes(["images=3x3x8x8"]))
    assert point.label == "shapes" and point.feeds["images"].shape == (3, 3, 8, 8)
    assert point.feeds["sizes"].tolist() == [3, 4]


def test_inputs_are_of_the_models_types() -> None:
    (point,) = points_of(info(FIXED), ("opt",), {}, [IoType("scale", "float64", "float16")])
    assert point.feeds["scale"].dtype == np.float64


def test_bfloat16_is_generated() -> None:
    (point,) = points_of(info(TensorSpec("x", "bfloat16", (4,), True)), ("opt",), {})
    assert str(point.feeds["x"].dtype) == "bfloat16"


@pytest.mark.parametrize(
    ("flag", "what", "expected"),
    [
        ("images=8x3x8x8", "the engine does not accept the shape", "from 1x3x8x8 to 4x3x8x8"),
        ("images=1x3x8", "the engine does not accept the shape", "float32[?, 3, 8, 8]"),
        ("images=1x3x8x8:2x3x8x8:4x3x8x8", "are a range", "one shape"),
        ("image=1x3x8x8", "has no input 'image'", "'images', 'sizes'"),
        ("sizes=2", "the engine does not accept the shape", "--inputs"),
    ],
)
def test_shapes_that_cannot_be(flag: str, what: str, expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        points_of(info(IMAGES, SIZES), ("opt",), parse_shapes([flag]))
    (problem,) = caught.value.problems
    assert what in problem.what and expected in problem.expected and flag in problem.where


def test_the_batch_of_no_inputs_and_of_scalars_is_one() -> None:
    assert Point("opt", {}).batch() == 1
    assert Point("opt", {"a": np.float32(3.0), "b": np.ones((7, 2))}).batch() == 7


def test_the_users_own_arrays() -> None:
    point = given_point(info(SIZES, FIXED), {"sizes": np.array([7, 8]), "scale": np.ones(5, np.float16)})
    assert (point.label, point.sizes()) == ("inputs", {"sizes": [7, 8], "scale": [5]})


def test_inputs_too_large_for_this_machine_are_a_message() -> None:
    with pytest.raises(UsageError, match="too large to be generated"):
        points_of(info(TensorSpec("x", "float32", (1 << 55,), True)), ("opt",), {})
