"""Inputs: generated, from files, and sets for the ends of an engine's profile."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.converter.models import parsed, relu
from tests.converter.rewrite.rules.transformer_models import encoder
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.options.shapes import InputSpec, ShapeRange, graph_inputs
from trtsmith.converter.engine.builder.build_request import Profile
from trtsmith.converter.engine.runtime.tensors import EngineInfo, TensorSpec
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.verify.given import load_expected, load_inputs
from trtsmith.converter.verify.inputs import generate_inputs
from trtsmith.converter.verify.sets import InputSet, generation_of_engine


@pytest.fixture
def nothing(tmp_path: Path) -> Model:
    return load_model(relu(tmp_path / "m.onnx"))


def test_inputs_of_which_nothing_is_known(nothing: Model) -> None:
    specs = [
        InputSpec("x", "float16", (None, 3), ("n", "")),
        InputSpec("b", "bool", (50,), ("",)),
        InputSpec("i", "uint8", (200,), ("",)),
        InputSpec("h", "bfloat16", (4,), ("",)),
        InputSpec("s", "float32", (), ()),
    ]
    made = generate_inputs(nothing, specs, {"x": (5, 3)})
    assert {n: (str(a.dtype), a.shape) for n, a in made.arrays.items()} == {
        "x": ("float16", (5, 3)), "b": ("bool", (50,)), "i": ("uint8", (200,)), "h": ("bfloat16", (4,)),
        "s": ("float32", ()),
    }  # fmt: skip
    assert made.meanings == ()
    assert set(made.arrays["i"]) == set(range(10)) and set(made.arrays["b"]) == {False, True}
    again = generate_inputs(nothing, specs, {"x": (5, 3)})
    assert all(np.array_equal(made.arrays[name], again.arrays[name]) for name in made.arrays)


@pytest.mark.parametrize("size", [10**12, 10**18 - 1])
def test_inputs_that_no_machine_holds(size: int, nothing: Model) -> None:
    spec = InputSpec("x", "float32", (None, 3), ("n", ""))
    with pytest.raises(UsageError, match="input 'x' is too large to be generated") as error:
        generate_inputs(nothing, [spec], {"x": (size, 3)})
    assert "--shapes" in error.value.problems[0].fix


def test_an_encoder_gets_words_segments_and_a_mask(tmp_path: Path) -> None:
    onnx.save(encoder(), tmp_path / "m.onnx")
    model = load_model(tmp_path / "m.onnx")
    specs = graph_inputs(model.proto)
    made = generate_inputs(model, specs, {spec.name: (3, 9) for spec in specs})
    ids, kinds, mask = (made.arrays[name] for name in ("ids", "kinds", "mask"))
    assert ids.min() >= 0 and 20 < ids.max() < 30
    assert set(kinds.reshape(-1)) == {0, 1}
    assert set(mask.reshape(-1)) == {0, 1} and np.all(mask[:, 0] == 1) and np.all(np.diff(mask, axis=1) <= 0)
    assert made.meanings == (
        "ids: whole numbers from 0 to 29, because Gather 'Gather_2' reads indices",
        "kinds: whole numbers from 0 to 1, because Gather 'Gather_4' reads indices",
        "mask: 1 for the first elements of each row, 0 for the rest, because Mul 'Mul_35' reads a mask",
    )


A = np.linspace(1, 2, 12, dtype=np.float32).reshape(3, 4)


def test_inputs_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, x=A, other=A)
    specs = [InputSpec("x", "float32", (None, 4), ("n", ""))]
    assert {n: a.shape for n, a in load_inputs(path, specs).items()} == {"x": (3, 4)}
    wrong = [
        InputSpec("z", "float32", (), ()),
        InputSpec("x", "float64", (None, 4), ("n", "")),
        InputSpec("other", "float32", (3, 4, 1), ("", "", "")),
    ]
    with pytest.raises(UsageError) as error:
        load_inputs(path, wrong)
    assert [(p.what, p.expected) for p in error.value.problems] == [
        ("no array for input 'z'", "an array 'z'"),
        ("input 'x' is float32[3, 4]", "float64[n, 4]"),
        ("input 'other' is float32[3, 4]", "float32[3, 4, 1]"),
    ]


def test_expected_outputs_are_all_of_them_and_no_others(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, b=A, a=A)
    outputs = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "abc"}
    assert list(load_expected(path, [outputs["a"], outputs["b"]])) == ["a", "b"]
    with pytest.raises(UsageError) as error:
        load_expected(path, [outputs["a"], outputs["c"]])
    assert [p.what for p in error.value.problems] == [
        "no array for output 'c'", "the model has no output 'b'",
    ]  # fmt: skip


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
