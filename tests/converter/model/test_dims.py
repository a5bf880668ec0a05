"""Dynamic dimensions that exporters name badly."""

from pathlib import Path

import pytest
from onnx import helper

from tests.converter.models import save, value
from trtsmith.converter.model.errors import ConversionError
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.shapes import ShapeRange, graph_inputs, profile_for


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
