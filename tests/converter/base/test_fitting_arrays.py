"""Arrays that do not fit a model's inputs: the line of numpy that is advised makes them fit, or none is advised."""

from __future__ import annotations

import numpy as np
import pytest

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.fitting_arrays import fitting_expression
from trtsmith.converter.base.options.shapes import InputSpec
from trtsmith.converter.verify.given import load_inputs

IMAGE = InputSpec("input.1", "float32", (None, 3, None, None), ("n", "", "h", "w"))
IDS = InputSpec("ids", "int64", (2,), ("",))
RNG = np.random.default_rng(0)
PICTURE = RNG.random((2, 3, 4, 5), np.float32)
IDS_GIVEN = np.array([1, 2])


@pytest.mark.parametrize(
    "given",
    [
        {"x": PICTURE, "ids": IDS_GIVEN},
        {"input.1": PICTURE.astype(np.float64), "ids": IDS_GIVEN.astype(np.int32)},
        {"input.1": PICTURE.transpose(0, 2, 3, 1), "ids": IDS_GIVEN},
        {"x": PICTURE.transpose(0, 2, 3, 1).astype(np.float16), "y": IDS_GIVEN.astype(np.uint8)},
        {"input.1": PICTURE[0], "ids": IDS_GIVEN.astype(np.float32), "other": PICTURE},
        {"input.1": PICTURE[0].transpose(1, 2, 0), "ids": IDS_GIVEN},
        {"input.1": np.rint(PICTURE * 255).astype(np.uint8).transpose(0, 2, 3, 1), "ids": IDS_GIVEN},
    ],
)
def test_one_way_is_found(given: dict[str, np.ndarray]) -> None:
    expression = fitting_expression(given, (IMAGE, IDS), "a")
    found = eval(expression, {"a": given})
    assert list(found) == ["input.1", "ids"]
    assert [(v.dtype.name, v.ndim) for v in found.values()] == [("float32", 4), ("int64", 1)]
    wanted = PICTURE[: len(found["input.1"])]
    np.testing.assert_allclose(found["input.1"], wanted, atol=2e-3)
    assert found["ids"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("given", "shape", "way"),
    [
        ((2, 32, 20), (2, 20, 32), ".transpose(0, 2, 1)"),
        ((2, 32, 20), (None, None, 32), ".transpose(0, 2, 1)"),  # the first axis stays, if it can
        ((20, 2, 32), (2, 20, 32), ".transpose(1, 0, 2)"),
        ((4, 3), (3, 4), ".transpose(1, 0)"),
        ((32, 20), (None, 20, 32), "[None].transpose(0, 2, 1)"),
        ((5,), (None, None), "[None]"),
        ((2, 2, 32), (32, 2, 2), ""),  # either of the first two may be meant
        ((2, 3, 4, 5, 6), (6, 5, 4, 3, 2), ""),
    ],
)
def test_a_transpose_is_found(given: tuple[int, ...], shape: tuple[int | None, ...], way: str) -> None:
    spec = InputSpec("x", "float32", shape, ("",) * len(shape))
    expression = fitting_expression({"x": np.zeros(given, np.float32)}, [spec], "a")
    assert expression == (f'{{"x": a["x"]{way}}}' if way else "")


def test_an_array_of_the_right_shape_comes_before_one_to_transpose() -> None:
    first, second = (
        InputSpec(name, "float32", shape, ("", "")) for name, shape in (("p", (3, 4)), ("q", (4, 3)))
    )
    given = {"a": np.zeros((4, 3), np.float32), "b": np.zeros((3, 4), np.float32)}
    assert fitting_expression(given, [first, second], "a") == '{"p": a["b"], "q": a["a"]}'
    assert fitting_expression({"a": given["a"]}, [first, second], "a") == ""  # one array for both


def test_bytes_are_divided_unless_they_are_a_mask() -> None:
    for last, said in ((255, True), (1, False)):
        pixels = np.full((1, 3, 2, 2), last, np.uint8)
        with pytest.raises(UsageError) as caught:
            load_inputs({"input.1": pixels}, [IMAGE])
        assert ("/ 255}; leave / 255 out" in caught.value.problems[0].fix) == said


@pytest.mark.parametrize(
    "given",
    [
        {"x": PICTURE, "y": PICTURE, "ids": IDS_GIVEN},  # either may be meant
        {"input.1": RNG.random((3, 4, 4, 3), np.float32)[:, :, :, :2], "ids": IDS_GIVEN},
        {"input.1": PICTURE, "ids": np.array([1.5, 2])},
        {"input.1": PICTURE.astype(np.float64) * 1e300, "ids": IDS_GIVEN},
        {"input.1": PICTURE},
    ],
)
def test_nothing_is_advised_where_it_is_not_sure(given: dict[str, np.ndarray]) -> None:
    assert fitting_expression(given, (IMAGE, IDS), "a") == ""


def test_arrays_in_python_get_an_expression() -> None:
    with pytest.raises(UsageError) as caught:
        load_inputs({"input.1": PICTURE.transpose(0, 2, 3, 1), "ids": IDS_GIVEN}, (IMAGE, IDS))
    assert caught.value.problems[0].fix == (
        'inputs={"input.1": inputs["input.1"].transpose(0, 3, 1, 2), "ids": inputs["ids"]}'
    )


@pytest.mark.parametrize(
    ("given", "shape", "told"),
    [
        ((6, 4), (2, 4), True),
        ((5, 4), (2, 4), False),  # no whole number of batches
        ((1, 4), (2, 4), False),
        ((6, 5), (2, 4), False),
        ((20, 8, 32), (1, 20, 32), False),  # the samples are along another axis
        ((8, 64), (4, 8, 64), False),
    ],
)
def test_several_batches_for_a_fixed_one(given: tuple[int, ...], shape: tuple[int, ...], told: bool) -> None:
    spec = InputSpec("x", "float32", shape, ("",) * len(shape))
    with pytest.raises(UsageError) as caught:
        load_inputs({"x": np.zeros(given, np.float32)}, [spec])
    said = f"a fixed batch of {shape[0]}: export it with torch.onnx.export(..., dynamic_axes={{'x': {{0: 'batch'}}}}); "
    said += f"or give one batch at a time, array[i : i + {shape[0]}] of each array"
    assert (said in caught.value.problems[0].fix) == told
