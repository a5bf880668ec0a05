"""The memory of onnx's inference is bounded by counting beforehand: no test here allocates it."""

from __future__ import annotations

import random
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from fuzzing.bombs import flattened, many_ranks, named_bombs
from trtsmith.converter.graph import infer
from trtsmith.converter.graph.infer import infer_shapes, inferred_proto
from trtsmith.converter.graph.inference_cost import MOST_ELEMENTS, MOST_IN_SHAPES, inference_cost
from trtsmith.converter.model.model import Model


def model(text: str, shape: str = "3, 4", **constants: Any) -> onnx.ModelProto:
    """y of the nodes of a text, with x of this shape."""
    head = '<ir_version: 8, opset_import: ["" : 17]>'
    proto = onnx.parser.parse_model(f"{head} g (float[{shape}] x) => (y) {{ {text} }}")
    held = (numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items())
    proto.graph.initializer.extend(held)
    return proto


def without_values(proto: onnx.ModelProto) -> onnx.ModelProto:
    return onnx.shape_inference.infer_shapes(proto)


def test_a_vector_behind_a_cast_is_counted_by_its_length() -> None:
    long = model(
        "v = Range (a, b, c) y = Cast <to = 7> (v)", a=np.int64(0), b=np.int64(1 << 31), c=np.int64(1)
    )
    assert inference_cost(long, inferred=False).elements == inf  # nobody knows yet how long it is
    assert inference_cost(without_values(long), inferred=True).elements == 2 << 31


def test_doubling_is_counted_step_by_step() -> None:
    nodes = " ".join(f"c{i + 1} = Concat <axis = 0> (c{i}, c{i})" for i in range(40))
    doubling = model(f"{nodes} y = Cast <to = 7> (c40)", c0=np.array([1, 2]))
    assert inference_cost(doubling, inferred=False).elements == sum(4 << i for i in range(40)) + (2 << 40)


@pytest.mark.parametrize("vector", ["Squeeze (v)", "Gather <axis = 1> (v, zero)"])
def test_a_vector_that_comes_of_a_matrix_is_counted_by_its_length(vector: str) -> None:
    text = f"v = Tile (one, sizes) vector = {vector} e = Gather (vector, zero)"
    values = {"one": np.ones((1, 1), np.float32), "sizes": np.array([1 << 40, 1]), "zero": np.array(0)}
    cost = inference_cost(without_values(model(text, **values)), inferred=True)
    assert cost.elements > MOST_ELEMENTS


def test_dimensions_are_counted_where_nodes_add_them() -> None:
    nodes = " ".join(f"u{i + 1} = Unsqueeze ({f'u{i}' if i else 'x'}, axes)" for i in range(100))
    axes = model(f"{nodes} y = Identity (u100)", axes=np.arange(10))
    ranks = sum(2 + 10 * (i + 1) for i in range(100)) + 1002 + 2
    assert inference_cost(axes, inferred=False).dimensions == ranks + 100 * 10


def test_the_name_of_a_size_weighs_wherever_it_is_copied() -> None:
    short, long = (model("r = Relu (x) y = Relu (r)", f"{name}, 4") for name in ("n", "n" * 64_000))
    assert inference_cost(short, inferred=False).dimensions == 3 * 2
    assert inference_cost(long, inferred=False).dimensions == 3 * 2 * 1001


@pytest.mark.parametrize("computed", [False, True])
def test_sizes_that_a_graph_computes_are_bounded_by_their_numbers(computed: bool) -> None:
    """As torch.export writes an Expand: ones of a computed size, and arithmetic on them."""
    text = f"""s = Shape (x) m = Mul (s, factor) ones = ConstantOfShape ({"m" if computed else "factor"})
        y = Add (ones, ones)"""
    few, many = (model(text, "100", factor=np.array([factor])) for factor in (2, 1 << 31))
    costs = [inference_cost(without_values(one), inferred=True).elements for one in (few, many)]
    assert costs[0] < 1000 and costs[1] > 1 << 31


def test_numbers_that_grow_without_end_are_no_numbers() -> None:
    squares = " ".join(f"n{i + 1} = Mul (n{i}, n{i})" for i in range(60))
    text = f"n0 = Size (x) {squares} n = Reshape (n60, one) e = Expand (one, n) y = Cast <to = 7> (e)"
    grown = model(text, f"{1 << 20}, {1 << 20}", one=np.array([1]))
    assert inference_cost(grown, inferred=False).elements == inf


@pytest.mark.parametrize("name", ["constant_of_shape", "range", "concat_doubling"])
def test_check_of_a_small_file_ends_soon_as_what_is_not_bounded_is_not_followed(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """onnx never hears of following values: that is where it took all memory."""
    asked: list[bool] = []

    def heard(proto: onnx.ModelProto, **options: bool) -> onnx.ModelProto:
        asked.append(options.get("data_prop", False))
        return onnx.shape_inference.infer_shapes(proto)

    monkeypatch.setattr(infer, "_infer", heard)
    inferred_proto(onnx.ModelProto.FromString(named_bombs()[name]))
    assert asked == [False]


def test_what_is_not_bounded_keeps_the_shapes_that_need_no_values() -> None:
    proto = flattened(random.Random(0))
    known = {value.name: value.type for value in inferred_proto(proto).graph.value_info}
    assert known["v"].tensor_type.shape.dim[0].dim_value > MOST_ELEMENTS


def test_shapes_of_too_many_dimensions_are_not_inferred() -> None:
    proto = next(
        one for one in map(many_ranks, map(random.Random, range(50))) if len(one.graph.node) > 10_000
    )
    assert inference_cost(proto, inferred=False).dimensions > MOST_IN_SHAPES
    whole = Model(proto, Path("m.onnx"), {})
    assert infer_shapes(whole).proto == proto


def test_values_are_followed_where_that_is_bounded() -> None:
    text = """s = Shape (x) n = Gather (s, first) both = Concat <axis = 0> (n, first)
        y = Reshape <allowzero = 1> (x, both)"""
    dims = (
        inferred_proto(model(text, "batch, 0", first=np.array([0])))
        .graph.output[0]
        .type.tensor_type.shape.dim
    )
    assert [dim.dim_param or dim.dim_value for dim in dims] == ["batch", 0]
