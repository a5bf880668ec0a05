"""A profile's decisions are written down, compute the same at all of its shapes, and build."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.converter.rewrite.profile.profile_cases import CASES, ProfileCase
from tests.converter.rewrite.running import engine_size, loaded, op_types
from trtsmith.converter.base.options.shape_tensors import parse_values
from trtsmith.converter.base.options.shapes import ShapeRange, parse_shapes
from trtsmith.converter.engine.builder.build_request import Profile
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.profile.profile_ranges import ranges_of
from trtsmith.converter.rewrite.rewrite import Rewritten, rewrite, runnable
from trtsmith.converter.rewrite.target import RTX


def rewritten(case: ProfileCase, folder: Path) -> Rewritten:
    ranges = ranges_of([parse_shapes(case.shapes)], [parse_values(case.values)])
    return rewrite(loaded(case.proto(), folder), RTX, profile=ranges)


def feeds(case: ProfileCase, end: str) -> dict[str, np.ndarray]:
    """Inputs at one end of the ranges; integers are rows of a scatter, or a shape tensor's value."""
    rng = np.random.default_rng(0)
    given = {}
    shapes, values = parse_shapes(case.shapes), parse_values(case.values)
    for value in case.proto().graph.input:
        if value.name in values:
            given[value.name] = np.array(getattr(values[value.name], end)[0], np.int64)
            continue
        shape = getattr(shapes[value.name], end)
        floats = value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
        array = rng.standard_normal(shape) if floats else np.arange(shape[0])[:, None] % 2 + np.zeros(shape)
        given[value.name] = array.astype(np.float32 if floats else np.int64)
    if "u" in given:  # of indices that come twice, each has the same update
        given["u"] = given["i"].astype(np.float32)
    return given


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_decided(case: ProfileCase, tmp_path: Path) -> None:
    result = rewritten(case, tmp_path)
    assert tuple(r.op_type for r in result.rewrites if r.pass_name == "profile") == case.records
    operators = op_types(result.model)
    assert not set(case.gone).intersection(operators) and set(case.left) <= set(operators)
    original = load_model(tmp_path / "model.onnx")
    for end in ("min", "opt", "max"):
        given = feeds(case, end)
        expected, found = run(original, given), run(runnable(result.model), given)
        np.testing.assert_array_equal(found["y"], expected["y"])
    onnx.checker.check_model(result.model.proto)


@pytest.mark.parametrize("case", [case for case in CASES if case.build], ids=lambda case: case.name)
def test_builds(case: ProfileCase, tmp_path: Path) -> None:
    result = rewritten(case, tmp_path)
    profile = {name: Profile(r.min, r.opt, r.max) for name, r in parse_shapes(case.shapes).items()}
    names = [value.name for value in result.model.proto.graph.input]
    assert names == [value.name for value in case.proto().graph.input]
    assert engine_size(result, tmp_path, profile) > 0


def test_a_size_that_may_be_one_decides_nothing(tmp_path: Path) -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[N, 4] x) => (float y) { c = Relu (x)  y = Squeeze (c) }'
    result = rewrite(loaded(text, tmp_path), RTX, profile=ranges_of([parse_shapes(["x=1x4:2x4:4x4"])]))
    assert not result.rewrites and not result.warnings()
    assert list(result.model.proto.graph.node[1].input) == ["c"]


def test_data_decides_nothing(tmp_path: Path) -> None:
    """The number of what is not zero, and an element of an input."""
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[N, 4] x) => (float[a, b] y) {
        zero = Constant <value = int64 {0}> ()  one = Constant <value = int64 {1}> ()
        where = NonZero (x)
        shape = Shape (where)
        count = Gather (shape, one)
        some = Greater (count, zero)
        y = If (some) <
            then_branch = t () => (float[a, b] r) { r = Neg (x) },
            else_branch = e () => (float[a, b] s) { s = Exp (x) }
        >
    }"""
    model = loaded(text, tmp_path)
    result = rewrite(model, profile=ranges_of([parse_shapes(["x=1x4"])]))
    assert "If" in op_types(result.model)
    for x in (np.zeros((1, 4), np.float32), np.ones((1, 4), np.float32)):
        np.testing.assert_array_equal(run(result.model, {"x": x})["y"], run(model, {"x": x})["y"])


def test_what_holds_in_one_profile_alone_is_not_known() -> None:
    ranges = ranges_of([{"x": ShapeRange((1, 4), (1, 4), (1, 4))}, {"x": ShapeRange((2, 4), (3, 4), (8, 4))}])
    assert ranges.sizes == {"x": ((1, 8), (4, 4))}
    assert ranges_of([{"x": ShapeRange((1,), (1,), (1,))}, {}]).sizes == {}


def test_static_models_come_back_node_for_node(tmp_path: Path) -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[N, 4] x) => (float[N, 4] y) { y = Relu (x) }'
    result = rewrite(loaded(text, tmp_path), profile=ranges_of([parse_shapes(["x=2x4"])]))
    (value,) = result.model.proto.graph.input
    assert [dim.dim_value for dim in value.type.tensor_type.shape.dim] == [2, 4]
    (made,) = result.model.proto.graph.output
    assert [dim.dim_value for dim in made.type.tensor_type.shape.dim] == [2, 4]
    assert op_types(result.model) == ["Relu"] and not result.rewrites


def test_wrong_shapes_are_left_to_who_reads_the_profile(tmp_path: Path) -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[N, 4] x) => (float[N, 4] y) { y = Relu (x) }'
    for shapes in ("x=2x5", "x=2", "z=2x4"):
        result = rewrite(loaded(text, tmp_path), profile=ranges_of([parse_shapes([shapes])]))
        (value,) = result.model.proto.graph.input
        assert value.type.tensor_type.shape.dim[0].dim_param == "N"
