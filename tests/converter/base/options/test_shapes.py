"""Optimisation profiles from the command line, and dynamic dimensions that exporters name badly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx import helper as oh

from tests.converter.models import load, parsed, save, value
from trtsmith.converter.base.errors import ConversionError, UsageError
from trtsmith.converter.base.options.kinds import ranges_of
from trtsmith.converter.base.options.shapes import (
    InputSpec,
    ShapeRange,
    graph_inputs,
    parse_shapes,
    profile_for,
    suggest,
)
from trtsmith.converter.model.load import load_model


@pytest.mark.parametrize(
    ("text", "name", "written"),
    [
        ("x=1x3:2x3:8x3", "x", "1x3:2x3:8x3"),
        ("x=1x3", "x", "1x3"),
        ("x=1X3", "x", "1x3"),
        ("a=b:0=0x3", "a=b:0", "0x3"),
        ("a,b:0=2x3", "a,b:0", "2x3"),
        ("c,=2", "c,", "2"),
        ("scalar=", "scalar", ""),
    ],
)
def test_shapes(text: str, name: str, written: str) -> None:
    ranges = parse_shapes([text])
    assert list(ranges) == [name] and str(ranges[name]) == written


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("images:1x3x640x640,mask:1x1", {"images": "1x3x640x640", "mask": "1x1"}),
        ("x:2", {"x": "2"}),
        ("images:0:1x3,b:1:2x4", {"images:0": "1x3", "b:1": "2x4"}),
        ("x:1X3", {"x": "1x3"}),
    ],
)
def test_shapes_of_several_inputs_as_trtexec_writes_them(text: str, written: dict[str, str]) -> None:
    ranges = parse_shapes([text, "other=1:2:3"])
    assert {name: str(given) for name, given in ranges.items()} == {**written, "other": "1:2:3"}


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("images=1x3,mask=1x1", "--shapes images=1x3 --shapes mask=1x1"),
        ("images=1x3:2x3:4x3,mask=1x1", "--shapes images=1x3:2x3:4x3 --shapes mask=1x1"),
        ("images=1x3,mask:1x1", "--shapes images=1x3 --shapes mask=1x1"),
        ("images:1x3,mask=1x1", "--shapes images=1x3 --shapes mask=1x1"),
        ("images:1x3:2x3:4x3", "--shapes images=1x3:2x3:4x3"),
        ("n:1:2:4", "--shapes n=1:2:4"),
        ("images:1x3:2x3", "--shapes NAME=MIN:OPT:MAX"),
        ("images:1x3:2x3:4x3,mask:1x1", "--shapes images=1x3:2x3:4x3 --shapes mask=1x1"),
        ("images:0:1x3:2x3:4x3", "--shapes images:0=1x3:2x3:4x3"),
    ],
)
def test_a_mix_of_the_two_forms_is_explained(text: str, fix: str) -> None:
    with pytest.raises(UsageError, match="mixes two notations") as error:
        parse_shapes([text])
    assert error.value.problems[0].fix == fix


@pytest.mark.parametrize("text", ["x:", ":1x3", "x:1x3,", "x:ax3", "x:1x3,y", "x:1 x 3", "a,b:c"])
def test_malformed_shapes_of_several_inputs(text: str) -> None:
    with pytest.raises(UsageError, match="is not a shape") as error:
        parse_shapes([text])
    assert error.value.problems[0].where == f"--shapes {text}"


@pytest.mark.parametrize(
    "text",
    ["", "=", "x", "x=1:1:1:1", "x=ax3", "x=-1x3", "x=1x3x", "x=xx", "x=1×3", "x=1e3", "x=１",
     "x=1.0", "x=9999999999999999999", "x=0x10x"],
)  # fmt: skip
def test_malformed_shapes(text: str) -> None:
    with pytest.raises(UsageError, match="is not a shape") as error:
        parse_shapes([text])
    (problem,) = error.value.problems
    assert problem.where == f"--shapes {text}"
    name = "x" if text.startswith("x=") else "NAME"
    assert problem.fix == f"--shapes {name}=1x3x320x320:1x3x640x640:8x3x1280x1280"


@pytest.mark.parametrize(
    ("text", "what", "fix"),
    [
        ("x=1x3:2x3", "a range has three, and two are given", "--shapes x=1x3:2x3:2x3"),
        ("x=1,3,64", "is not a shape", "--shapes x=1x3x64"),
        ("x=1,3:2,3:4,3", "is not a shape", "--shapes x=1x3:2x3:4x3"),
        ("x=1x3,2x3,4x3", "is not a shape", "--shapes x=1x3:2x3:4x3"),
        ("x=1x3x9,2x3,4x3x9", "is not a shape", "--shapes x=1x3x320x320:1x3x640x640:8x3x1280x1280"),
        ("x=(1,3,64)", "is not a shape", "--shapes x=1x3x64"),
        ("x=[1, 3, 64]", "is not a shape", "--shapes x=1x3x64"),
        ("x=1 x 3", "is not a shape", "--shapes x=1x3"),
        ("1x3x64", "is not a shape", "--shapes NAME=1x3x64"),
        ("=1x3", "is not a shape", "--shapes NAME=1x3"),
    ],
)
def test_what_was_meant_is_the_fix(text: str, what: str, fix: str) -> None:
    with pytest.raises(UsageError, match=what) as error:
        parse_shapes([text])
    assert error.value.problems[0].fix == fix and parse_shapes([fix.removeprefix("--shapes ")])


@pytest.mark.parametrize(
    ("text", "what", "fix"),
    [
        ("x=2x3:1x3:4x3", "contradict each other", "--shapes x=1x3:2x3:4x3"),
        ("x=8x4:4x3:1x5", "contradict each other", "--shapes x=1x3:4x4:8x5"),
        ("x=1x3:1x3x3:1x3", "2 in min, 3 in opt, 2 in max", "give each the same dimensions"),
    ],
)
def test_contradictory_shapes(text: str, what: str, fix: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_shapes([text])
    (problem,) = error.value.problems
    assert what in problem.what and problem.fix == fix


def test_shapes_as_trtexec_takes_them() -> None:
    ranges = parse_shapes([], "a:1x3,b:0:1x4", "a:2x3,b:0:2x4", "a:8x3,b:0:4x4")
    assert {n: str(r) for n, r in ranges.items()} == {"a": "1x3:2x3:8x3", "b:0": "1x4:2x4:4x4"}
    assert str(parse_shapes([], minimum="a:1x3", maximum="a:4x3")["a"]) == "1x3:4x3:4x3"
    assert str(parse_shapes([], minimum="a:1x3")["a"]) == "1x3"


@pytest.mark.parametrize("text", ["x", "x:", ":1x3", "x:1x3,", "x:ax3", ","])
def test_malformed_trtexec_shapes(text: str) -> None:
    with pytest.raises(UsageError, match="is not a shape") as error:
        parse_shapes([], optimum=text)
    assert error.value.problems[0].fix == "--optShapes NAME:1x3x640x640[,NAME:...]"


@pytest.mark.parametrize(
    "arguments",
    [(["x=1", "x=2"],), ([], "x:1,x:2"), (["x=1"], "x:1"), (["x:1,x:2"],), (["x:1", "x=1"],)],
)
def test_shapes_given_twice(arguments: tuple[object, ...]) -> None:
    with pytest.raises(UsageError, match="shapes of 'x' are given twice"):
        parse_shapes(*arguments)  # type: ignore[arg-type]


FIXED = InputSpec("f", "float32", (1, 3), ("", ""))
DYNAMIC = InputSpec("d", "float16", (None, 3, None, None), ("n", "", "h", ""))


def test_profile() -> None:
    ranges = parse_shapes(["d=1x3x8x8:2x3x8x8:4x3x16x16", "f=1x3"])
    assert profile_for([FIXED, DYNAMIC], ranges) == {
        "d": ShapeRange((1, 3, 8, 8), (2, 3, 8, 8), (4, 3, 16, 16))
    }
    assert profile_for([FIXED], {}) == {}


def test_a_dimension_of_two_inputs_has_one_usual_size() -> None:
    """TensorRT takes it to be equal, and fails in the first node that reads both. Smallest and largest may differ."""
    pose, points = (InputSpec(name, "float32", (None, 3), ("B", "")) for name in ("pose", "pts"))
    assert profile_for([pose, points], parse_shapes(["pose=1x3:2x3:8x3", "pts=2x3:2x3:16x3"]))
    with pytest.raises(UsageError) as error:
        profile_for([pose, points], parse_shapes(["pose=1x3:2x3:8x3", "pts=1x3:4x3:8x3"]))
    (problem,) = error.value.problems
    assert problem.what == "dimension 'B' is 2 in input 'pose' and 4 in input 'pts', at the usual sizes"
    assert problem.fix == "--shapes pts=1x3:2x3:8x3"


def test_sizes_of_a_dimension_are_answered_with_the_shapes_of_its_input() -> None:
    with pytest.raises(UsageError) as error:
        parse_shapes(["B=1:8"])
    assert error.value.problems[0].fix == "--shapes B=1:8:8, if 'B' is an input of one dimension"
    with pytest.raises(UsageError) as error:
        profile_for([InputSpec("pose", "float32", (None, 3), ("B", ""))], parse_shapes(["B=1:8:8"]))
    problem = error.value.problems[0]
    assert (problem.what, problem.fix) == ("the model has no input 'B'", "--shapes pose=1x3:1x3:8x3")


def test_every_wrong_input_is_named_at_once() -> None:
    ranges = parse_shapes(["z=1", "f=2x3", "e=1x4"])
    other = InputSpec("e", "int64", (None, 3), ("", ""))
    with pytest.raises(UsageError) as error:
        profile_for([FIXED, DYNAMIC, other], ranges)
    assert [(p.what, p.expected, p.fix) for p in error.value.problems] == [
        ("the model has no input 'z'", "one of: 'f', 'd', 'e'", "correct the name"),
        (
            "input 'f' has the fixed shape float32[1, 3]",
            "that shape, or no flag",
            "remove the flag, or export the model with dynamic dimensions: "
            'torch.onnx.export(..., dynamo=True, dynamic_shapes={"f": {0: "batch"}})',
        ),
        (
            "input 'd' is dynamic and has no shapes",
            "the smallest, the usual and the largest shape: NAME=1x3x320x320:1x3x640x640:8x3x1280x1280 "
            "(min:opt:max), or one shape for all three",
            "--shapes d=1x3x320x320:1x3x640x640:8x3x1280x1280",
        ),
        (
            "the shapes of input 'e' do not fit: dimension 1 is 4, but the model fixes it at 3",
            "int64[?, 3]",
            "--shapes e=1x3:1x3:8x3",
        ),
    ]


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("1x32x48x3", "1x3x32x48"),
        ("1x8x8x3:2x16x8x3:4x16x32x3", "1x3x8x8:2x3x16x8:4x3x16x32"),
        ("1x3x32", "1x3x32x32"),
        ("3x32x48", "1x3x32x48"),
        ("640", "1x3x640x640"),
        ("32x48", "1x3x32x48"),
        ("0x3x32x48", "1x3x32x48"),
        ("0x3x8x8:0x3x8x8:4x3x8x8", "1x3x8x8:1x3x8x8:4x3x8x8"),
        ("1x4x8x8", "1x3x320x320:1x3x640x640:8x3x1280x1280"),
    ],
)
def test_shapes_that_do_not_fit_are_corrected(given: str, meant: str) -> None:
    with pytest.raises(UsageError, match="do not fit") as error:
        profile_for([DYNAMIC], parse_shapes([f"d={given}"]))
    (problem,) = error.value.problems
    assert problem.fix == f"--shapes d={meant}"
    assert profile_for([DYNAMIC], parse_shapes([f"d={meant}"]))


def test_the_smallest_shape_may_be_empty() -> None:
    assert profile_for([DYNAMIC], parse_shapes(["d=0x3x8x8:1x3x8x8:2x3x8x8"]))["d"].min[0] == 0


@pytest.mark.parametrize("spec", [DYNAMIC, InputSpec("t", "int64", (None, None), ("", ""))])
def test_the_suggested_flag_is_accepted(spec: InputSpec) -> None:
    assert list(profile_for([spec], parse_shapes([suggest(spec)]))) == [spec.name]


AUDIO = InputSpec("audio", "float32", (None, None), ("batch", "samples"))
STATE = InputSpec("state", "float32", (2, None, 64), ("", "batch", ""))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], ["audio=1x1:1x128:8x512", "state=2x1x64:2x1x64:2x8x64"]),
        (["audio=2x16:4x32:6x64"], ["state=2x2x64:2x4x64:2x6x64"]),
        (["state=2x3x64"], ["audio=3x1:3x128:3x512"]),
        (["audio=1x1x9", "state=2x3x64"], ["audio=3x1:3x128:3x512"]),
    ],
)
def test_dimensions_of_one_name_get_the_same_sizes(given: list[str], expected: list[str]) -> None:
    with pytest.raises(UsageError) as error:
        profile_for([AUDIO, STATE], parse_shapes(given))
    assert [problem.fix for problem in error.value.problems] == [f"--shapes {text}" for text in expected]


def test_graph_inputs(tmp_path: Path) -> None:
    text = "(float16[n, 3, ?] x, float16[3, 1] w) => (float16[] y) { y = Add (x, w) }"
    model = parsed(tmp_path / "m.onnx", text, {"w": np.ones((3, 1), np.float16)})
    assert graph_inputs(model.proto) == (InputSpec("x", "float16", (None, 3, None), ("n", "", "")),)


def test_inputs_that_tensorrt_cannot_have_are_named_at_once(tmp_path: Path) -> None:
    inputs = [
        oh.make_tensor_sequence_value_info("s", TensorProto.FLOAT, [1]),
        value("t", (1,), TensorProto.STRING),
        value("z", (1,), TensorProto.COMPLEX64),
        value("r", None),
        value("n", (1,) * 9),
        value("ok", ()),
    ]
    node = oh.make_node("Relu", ["ok"], ["y"])
    model = load(tmp_path / "m.onnx", [node], inputs, [value("y", ())])
    with pytest.raises(ConversionError) as error:
        graph_inputs(model.proto)
    assert [p.what for p in error.value.problems] == [
        "input 's' is not a tensor",
        "input 't' has strings",
        "input 'z' has complex numbers",
        "input 'r' has no shape, not even a number of dimensions",
        "input 'n' has 9 dimensions",
    ]


def saved(folder: Path, dims: list[int | str]) -> Path:
    ends = [value("x", dims)], [value("y", dims)]
    return save(folder / "model.onnx", [helper.make_node("Relu", ["x"], ["y"])], *ends)


@pytest.mark.parametrize("name", ["?", "-1", "None", "*", -1])
def test_a_name_that_says_nothing_makes_no_sizes_equal(name: int | str, tmp_path: Path) -> None:
    proto = load_model(saved(tmp_path, [1, 3, name, name])).proto
    for edge in (*proto.graph.input, *proto.graph.output):
        dims = edge.type.tensor_type.shape.dim
        assert [d.dim_value for d in dims[:2]] == [1, 3]
        assert [d.WhichOneof("value") for d in dims] == ["dim_value", "dim_value", None, None]
    wide = ShapeRange(*[(1, 3, 32, 64)] * 3)
    assert profile_for(graph_inputs(proto), {"x": wide}) == {"x": wide}


def test_a_name_that_says_something_stays(tmp_path: Path) -> None:
    dims = load_model(saved(tmp_path, ["batch", "unk__12"])).proto.graph.input[0].type.tensor_type.shape.dim
    assert [d.dim_param for d in dims] == ["batch", "unk__12"]


def test_other_negative_sizes_are_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="sizes that a machine can hold"):
        load_model(saved(tmp_path, [1, -2]))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (["1x3", "2x3", "8x3"], "x=1x3:2x3:8x3"),
        ([(1, 3), "2x3", ["8", 3]], "x=1x3:2x3:8x3"),
        (("1", 3), "x=1x3"),
        (("1", "3"), "x=1x3"),
    ],
)
def test_parts_of_a_range_may_be_texts(given: object, text: str) -> None:
    assert ranges_of({"x": given}, "x", "{}") == [text]
