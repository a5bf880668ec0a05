"""Sets of inputs for the ends of an engine's profile."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.converter.models import parsed
from trtsmith.converter.engine.build.build_request import Profile
from trtsmith.converter.engine.runtime.tensors import EngineInfo, TensorSpec
from trtsmith.converter.model.errors import UsageError
from trtsmith.converter.model.shapes import ShapeRange, graph_inputs
from trtsmith.converter.verify.sets import InputSet, generation_of_engine

TEXT = """(float[N, 3] x, int64[2] s, float[3] w) => (float[A, B] y) { m = Mul (x, w) y = Tile (m, s) }"""


VALUES = Profile((1, 1), (2, 1), (4, 2), values=True)


def sets(
    folder: Path, *profiles: Profile, values: Profile = VALUES, **given: ShapeRange
) -> tuple[InputSet, ...]:
    model = parsed(folder / "m.onnx", TEXT)
    inputs = (
        TensorSpec("x", "float32", (-1, 3), True, False, profiles),
        TensorSpec("s", "int64", (2,), True, True, (values,) * len(profiles)),
        TensorSpec("w", "float32", (3,), True),
    )
    info = EngineInfo("tensorrt", "10", "gpu", "9.0", inputs, (), len(profiles), 0)
    return generation_of_engine(model, graph_inputs(model.proto), info, 0, given, {}).sets()[0]


def test_each_end_and_the_middle(tmp_path: Path) -> None:
    found = sets(tmp_path, Profile((1, 3), (4, 3), (9, 3)))
    assert [(s.at, s.feeds["x"].shape, s.feeds["s"].tolist()) for s in found] == [
        ("min", (1, 3), [1, 1]), ("opt", (4, 3), [2, 1]), ("max", (9, 3), [4, 2]),
    ]  # fmt: skip


def test_sizes_that_are_given_stand_for_the_profiles(tmp_path: Path) -> None:
    five = (5, 3)
    found = sets(tmp_path, Profile((1, 3), (4, 3), (9, 3)), x=ShapeRange(five, five, five))
    assert [s.feeds["x"].shape for s in found] == [five] * 3  # the values of `s` still differ
    with pytest.raises(UsageError, match="the shapes of input 'x' do not fit: dimension 1 is 4"):
        sets(tmp_path, Profile((1, 3), (4, 3), (9, 3)), x=ShapeRange((1, 4), (1, 4), (1, 4)))
    with pytest.raises(UsageError, match="the model has no input 'q'"):
        sets(tmp_path, Profile((1, 3), (4, 3), (9, 3)), q=ShapeRange((1,), (1,), (1,)))


def test_equal_ends_are_one_set(tmp_path: Path) -> None:
    same, twice = Profile((2, 3), (2, 3), (2, 3)), Profile((1, 1), (2, 2), (2, 2), values=True)
    assert [s.at for s in sets(tmp_path, same, values=twice)] == ["min", "opt"]


def test_a_single_size(tmp_path: Path) -> None:
    text = TEXT.replace("int64[2] s, ", "").replace("y = Tile (m, s)", "y = Neg (m)")
    model = parsed(tmp_path / "m.onnx", text)
    x = TensorSpec("x", "float32", (-1, 3), True, False, (Profile((2, 3), (2, 3), (2, 3)),))
    info = EngineInfo("tensorrt", "10", "gpu", "9.0", (x,), (), 1, 0)
    found, _ = generation_of_engine(model, graph_inputs(model.proto), info, 0, {}, {}).sets()
    assert [(s.at, s.feeds["x"].shape) for s in found] == [("", (2, 3))]
