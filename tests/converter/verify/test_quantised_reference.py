"""The reference of quantised networks: onnxruntime's optimiser makes others of them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from tests.converter.models import parsed, written
from tests.converter.rewrite.precision.networks import network
from trtsmith.converter.engine.runtime.run_request import RunRequest
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run
from trtsmith.converter.verify import engine
from trtsmith.converter.verify.graphs import verify_graphs
from trtsmith.converter.verify.sensitivity import with_own_definitions
from trtsmith.converter.verify.sets import InputSet
from trtsmith.converter.verify.verdict import Verdict


def quantised(folder: Path, layers: int = 4) -> Path:
    """Convolutions between QuantizeLinear and DequantizeLinear, which onnxruntime fuses into QLinearConv."""
    random, body, value = np.random.default_rng(0), "", "x"
    weights = {f"w{i}": random.integers(-127, 128, (8, 8, 3, 3)).astype(np.int8) for i in range(layers)}
    for i in range(layers):
        body += f"""q{i} = QuantizeLinear ({value}, step, zero) d{i} = DequantizeLinear (q{i}, step, zero)
            f{i} = DequantizeLinear (w{i}, small, zero) c{i} = Conv <pads = [1, 1, 1, 1]> (d{i}, f{i}) """
        value = f"c{i}"
    text = f"""(float[1, 8, 12, 12] x) => (float[1, 8, 12, 12] y)
        <float step = {{0.02}}, float small = {{0.004}}, int8 zero = {{0}}> {{
        {body} last = QuantizeLinear ({value}, step, zero) y = DequantizeLinear (last, step, zero) }}"""
    return written(folder / "m.onnx", text, weights)


FEEDS = {"x": np.random.default_rng(1).standard_normal((1, 8, 12, 12)).astype(np.float32) / 9}


def with_relu(folder: Path) -> Model:
    """A Relu before a QuantizeLinear to float8, a signed type."""
    text = """(float[4] x) => (float[4] y) <float step = {0.5}> {
        r = Relu (x) q = QuantizeLinear (r, step, zero) y = DequantizeLinear (q, step, zero) }"""
    return parsed(folder / "m.onnx", text, {"zero": np.zeros((), ml_dtypes.float8_e4m3fn)}, opset=19)


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
