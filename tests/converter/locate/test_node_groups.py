"""Nodes that are right alone and wrong together are reported, with the suspect tensors and a model that shows it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper as oh
from onnx import numpy_helper

from tests.converter.locate.graphs import initializer
from tests.converter.locate.in_place import (
    W,
    X,
    chaotic,
    in_place,
    messages,
    one_buffer_of_states,
    two_states,
)  # fmt: skip
from tests.converter.locate.sabotage import Change, Sabotaged, allowing, located, node_of, to_tf32
from tests.converter.models import parsed
from trtsmith.converter.cli.reports.located_fault import render
from trtsmith.converter.locate.found import Located
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run


def found(model: Model, executor: Sabotaged, folder: Path | None = None, allowed: float = 0.0) -> Located:
    """allowed: what outputs may differ by; 0: 2e-3, the least in TF32."""
    asked = replace(allowing(run(model, {"x": X}), most=allowed), folder=folder)
    return located(model, executor, {"x": X}, asked)


def names_in(folder: Path) -> set[str]:
    return {node.name for node in load_model(folder / "node.onnx").proto.graph.node}


def shows(folder: Path, change: Change) -> bool:
    """Whether what is saved is wrong when that is done to it, by what is saved as expected, and right as it is."""
    saved = load_model(folder / "node.onnx")
    inputs, expected, actual = (dict(np.load(folder / f"{n}.npz")) for n in ("inputs", "expected", "actual"))
    right, wrong = run(saved, inputs), Sabotaged(change).execute(saved, inputs)
    for name, array in expected.items():
        np.testing.assert_allclose(right[name], array, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(wrong[name], actual[name], rtol=1e-5, atol=1e-6)
    return any(not np.allclose(array, actual[name], rtol=1e-2) for name, array in expected.items())


@pytest.mark.parametrize("always", [False, True])
@pytest.mark.parametrize("one_buffer", [True, False])
def test_a_buffer_that_is_updated_in_place_is_told_with_the_nodes_that_share_it(
    one_buffer: bool, always: bool, tmp_path: Path
) -> None:
    model = messages(tmp_path / "m.onnx", one_buffer=one_buffer, before=3)
    executor = Sabotaged(in_place(always=always), tf32=True, fuses=True)
    result = found(model, executor, tmp_path / "saved")
    assert result.status == "fusion" and [node.name for node in result.nodes] == ["scatter 2"], render(result)
    assert result.nodes[0].alone is False and result.nodes[0].outputs[0].error > 0.1
    (shared,) = result.shared
    assert (shared.node, shared.fill, shared.times) == ("scatter 2", 0.0, 1)
    if one_buffer:
        assert (shared.name, shared.readers, shared.equal) == ("zeros", ("scatter 1", "old"), {})
    else:
        assert (shared.name, shared.readers, shared.equal) == ("nought", ("old",), {"zeros": ("scatter 1",)})
    assert [output.output for output in result.outputs] == ["y"] and result.outputs[0].relative > 0.05
    assert "allowed 0.002" in result.outputs[0].reason
    names = names_in(tmp_path / "saved")
    assert names == {"scatter 1", "old", "scatter 2"} | ({"zeros"} if one_buffer else {"zeros", "nought"})
    assert result.folder == str(tmp_path / "saved") and shows(tmp_path / "saved", in_place(always=always))
    text = render(result)
    assert (
        "wrongly together" in text and "report it to NVIDIA with the folder" in text and "scatter 1" in text
    )
    assert "a constant of 0 everywhere" in text and "sent again" not in dict(result.skipped)
    assert json.loads(json.dumps(result.to_json(), allow_nan=False))["shared"][0]["name"] == shared.name
    assert "these nodes alone" in (tmp_path / "saved" / "README.txt").read_text()


def test_loop_states_that_start_from_one_tensor_are_told(tmp_path: Path) -> None:
    model = two_states(tmp_path / "m.onnx")
    result = found(model, Sabotaged(one_buffer_of_states, fuses=True), tmp_path / "saved")
    assert result.status == "fusion" and [node.name for node in result.nodes] == ["scan"], render(result)
    (shared,) = result.shared
    assert (shared.name, shared.times, shared.readers, shared.fill) == ("zeros", 2, (), 0.0)
    assert "as 2 of its inputs" in render(result) and shows(tmp_path / "saved", one_buffer_of_states)


def test_nodes_that_share_nothing_are_saved_with_their_neighbours(tmp_path: Path) -> None:
    """The product is wrong behind three of the nodes before it."""
    model = messages(tmp_path / "m.onnx", before=40)
    behind = {"x37", "x38", "x39"}

    def change(graph: onnx.GraphProto) -> None:
        node = node_of(graph, "product")
        if node is not None and behind <= {node.name for node in graph.node}:
            node.input[0], node.input[1] = "got", "w turned"
            turned = oh.make_node("Transpose", ["w"], ["w turned"], perm=[1, 0])
            graph.node.insert(0, turned)

    result = found(model, Sabotaged(change, fuses=True), tmp_path / "saved")
    assert (result.status, result.shared) == ("fusion", ()), render(result)
    assert [node.name for node in result.nodes] == ["product"]
    names = names_in(tmp_path / "saved")
    assert behind | {"product"} <= names and "x30" not in names and shows(tmp_path / "saved", change)


def test_what_no_part_shows_is_not_saved(tmp_path: Path) -> None:
    model = messages(tmp_path / "m.onnx", before=3)
    whole, wrong = len(model.proto.graph.node), in_place(always=True)
    change = lambda graph: wrong(graph) if len(graph.node) >= whole else None  # noqa: E731
    result = found(model, Sabotaged(change, fuses=True), tmp_path / "saved")
    assert (result.status, result.folder) == ("fusion", "") and not (tmp_path / "saved").exists()
    assert "with the model, its inputs" in render(result)


def cancelling(path: Path) -> Model:
    """x times w, less nearly the same: what TF32 does to the product is most of what is left."""
    near = X @ W + 1e-3 * np.random.default_rng(4).standard_normal((4, 8)).astype(np.float32)
    text = "(float[4, 8] x) => (float[4, 8] y) { [product] h = MatMul (x, w) [sub] y = Sub (h, near) }"
    return parsed(path, text, {"w": W, "near": near})


@pytest.mark.parametrize(("share", "status"), [(0.5, "rounding"), (0.05, "unexplained")])
def test_rounding_is_named_only_where_what_was_measured_explains_the_outputs(
    share: float, status: str, tmp_path: Path
) -> None:
    """No node is off by more than TF32. What was seen is twice what is allowed, or twenty times."""

    def in_tf32(graph: onnx.GraphProto) -> None:
        weights = initializer(graph, "w")
        if weights is not None:
            weights.CopyFrom(numpy_helper.from_array(to_tf32(W), "w"))

    model, executor = cancelling(tmp_path / "m.onnx"), Sabotaged(in_tf32, tf32=True, fuses=True)
    right, wrong = run(model, {"x": X})["y"], executor.execute(model, {"x": X})["y"]
    error = float(np.linalg.norm(wrong - right) / np.linalg.norm(right))
    result = found(model, executor, allowed=share * error)
    assert (result.status, result.nodes, result.precision) == (status, (), "tf32")
    assert result.outputs[0].relative == pytest.approx(error) and "product" in render(result)
    assert ("the precision itself makes the difference" in render(result)) is (status == "rounding")


def first_factor(graph: onnx.GraphProto, by: float, also_alone: bool = True) -> None:
    """The first step of the Scan, or all of them alike, multiplied by other than 3.9."""
    steps = initializer(graph, "steps")
    if steps is not None and (also_alone or len(graph.node) > 1):
        factors = numpy_helper.to_array(steps).copy()
        factors[0] *= 1 + by
        steps.CopyFrom(numpy_helper.from_array(factors, "steps"))


def test_rounding_that_grows_explains_what_no_precision_of_products_does(tmp_path: Path) -> None:
    model = chaotic(tmp_path / "m.onnx")
    executor = Sabotaged(lambda graph: first_factor(graph, 2e-7), fuses=True)
    result = found(model, executor)
    assert result.status == "rounding" and not result.nodes, render(result)
    assert {output.output for output in result.outputs} == {"y", "rows"} and result.outputs[0].relative > 0.1
    advice = [sentence for sentence in result.advice if "ill-conditioned" in sentence]
    assert len(advice) == 2 and "--inputs" in advice[0] and "'y'" in "".join(advice)


def test_a_loop_that_starts_wrong_is_not_excused_by_rounding_that_grows_in_it(tmp_path: Path) -> None:
    model = chaotic(tmp_path / "m.onnx")
    alone = Sabotaged(lambda graph: first_factor(graph, -0.5), fuses=True)
    assert [node.name for node in found(model, alone).nodes] == ["scan"]
    company = Sabotaged(lambda graph: first_factor(graph, -0.5, also_alone=False), fuses=True)
    result = found(model, company)
    assert [node.name for node in result.nodes] == ["scan"] and result.nodes[0].alone is False
