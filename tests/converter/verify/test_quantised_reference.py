"""The reference of quantised networks: onnxruntime's optimiser makes others of them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest

from tests.converter.rewrite.precision.networks import network
from trtsmith.converter.engine.runtime.run_request import RunRequest
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run
from trtsmith.converter.verify import engine
from trtsmith.converter.verify.graphs import verify_graphs
from trtsmith.converter.verify.own_definitions import with_own_definitions
from trtsmith.converter.verify.sets import InputSet
from trtsmith.converter.verify.verdict import Verdict


def quantised(folder: Path, layers: int = 4) -> Path:
    """Convolutions between QuantizeLinear and DequantizeLinear, which onnxruntime fuses into QLinearConv."""
    random = np.random.default_rng(0)
    nodes, tensors, value = [], [], "x"

    def tensor(name: str, array: np.ndarray) -> str:
        tensors.append(onnx.numpy_helper.from_array(array, name))
        return name

    step, zero = tensor("step", np.array(0.02, np.float32)), tensor("zero", np.array(0, np.int8))
    small = tensor("small", np.array(0.004, np.float32))
    for layer in range(layers):
        weights = tensor(f"w{layer}", random.integers(-127, 128, (8, 8, 3, 3)).astype(np.int8))
        nodes += [
            onnx.helper.make_node("QuantizeLinear", [value, step, zero], [f"q{layer}"]),
            onnx.helper.make_node("DequantizeLinear", [f"q{layer}", step, zero], [f"d{layer}"]),
            onnx.helper.make_node("DequantizeLinear", [weights, small, zero], [f"f{layer}"]),
            onnx.helper.make_node("Conv", [f"d{layer}", f"f{layer}"], [f"c{layer}"], pads=[1, 1, 1, 1]),
        ]
        value = f"c{layer}"
    nodes += [
        onnx.helper.make_node("QuantizeLinear", [value, step, zero], ["last"]),
        onnx.helper.make_node("DequantizeLinear", ["last", step, zero], ["y"]),
    ]
    shape = [1, 8, 12, 12]
    graph = onnx.helper.make_graph(
        nodes,
        "g",
        [onnx.helper.make_tensor_value_info("x", 1, shape)],
        [onnx.helper.make_tensor_value_info("y", 1, shape)],
        tensors,
    )
    path = folder / "m.onnx"
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9), path
    )
    return path


FEEDS = {"x": np.random.default_rng(1).standard_normal((1, 8, 12, 12)).astype(np.float32) / 9}


def with_relu(folder: Path) -> Model:
    """A Relu before a QuantizeLinear to float8, a signed type."""
    nodes = [
        onnx.helper.make_node("Relu", ["x"], ["r"]),
        onnx.helper.make_node("QuantizeLinear", ["r", "step", "zero"], ["q"]),
        onnx.helper.make_node("DequantizeLinear", ["q", "step", "zero"], ["y"]),
    ]
    value = onnx.helper.make_tensor_value_info
    zero = onnx.helper.make_tensor("zero", onnx.TensorProto.FLOAT8E4M3FN, [], [0.0])
    tensors = [onnx.numpy_helper.from_array(np.array(0.5, np.float32), "step"), zero]
    graph = onnx.helper.make_graph(nodes, "g", [value("x", 1, [4])], [value("y", 1, [4])], tensors)
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 19)], ir_version=9),
        folder / "m.onnx",
    )
    return load_model(folder / "m.onnx")


def test_no_relu_is_lost_before_a_quantised_value(tmp_path: Path) -> None:
    model, feeds = with_relu(tmp_path), {"x": np.array([-4, -1, 1, 4], np.float32)}
    assert run(model, feeds)["y"].tolist() == [0, 0, 1, 4]
    lost = {"y": np.array([-4, -1, 1, 4], np.float32)}
    assert verify_graphs(model, model, feeds, "mine").passed
    assert verify_graphs(model, model, feeds, "mine", expected=lost).status == "disagree"


def test_an_engine_is_compared_with_the_run_without_the_optimiser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_model(quantised(tmp_path))
    optimised, plain = (run(model, FEEDS, optimise=optimise) for optimise in (True, False))
    assert not np.array_equal(optimised["y"], plain["y"]), "onnxruntime's optimiser changes nothing any more"

    def verdict_on(outputs: dict[str, np.ndarray]) -> Verdict:
        result = SimpleNamespace(outputs=(outputs,), warnings=())
        monkeypatch.setattr(engine, "run_engine", lambda *_: result)
        sets, request = (InputSet("", FEEDS),), RunRequest(tmp_path / "e.plan")
        return engine.verify_engine(model, request, sets, "mine", engine_inputs={"x"}, precision="fp32")

    assert verdict_on(plain).passed and verdict_on(plain).comparisons[0].relative == 0
    assert verdict_on(optimised).comparisons[0].relative > 0  # and no further off than other right roundings
    assert verdict_on({"y": np.roll(plain["y"], 1, axis=2)}).status == "disagree"


def test_operators_that_have_no_run_but_the_fused_one_are_named(tmp_path: Path) -> None:
    model = network(tmp_path, "(float[3] x) => (float[3] y) { y = Relu (x) }")
    verdict = verify_graphs(model, model, {"x": np.ones(3, np.float32)}, "mine")
    assert with_own_definitions(model, verdict) is verdict
    model.proto.graph.node.add(op_type="QLinearAdd", domain="com.microsoft")
    reason = with_own_definitions(model, verdict).reason
    assert "onnxruntime fuses quantised operators into QLinearAdd" in reason
