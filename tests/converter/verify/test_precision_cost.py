"""The cost of 8 bits is reported beside the verdict, and decides it only with --max-cost."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.converter.rewrite.precision.networks import network, normal
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.cli.reports.comparison import render_verdict
from trtsmith.converter.engine.builder.build_request import BuildResult
from trtsmith.converter.engine.runtime.run_request import RunRequest
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.rewrite import Rewritten
from trtsmith.converter.verify.conversion_check import ConversionCheck
from trtsmith.converter.verify.cost import measured
from trtsmith.converter.verify.cost.measured import QuantizedLayers, measured_cost
from trtsmith.converter.verify.cost.precision_cost import OutputCost, PrecisionCost
from trtsmith.converter.verify.sets import InputSource
from trtsmith.converter.verify.tolerances import parse_tolerances
from trtsmith.converter.verify.verdict import Verdict

X = normal(16, 32, seed=3)
WEIGHTS = {"v": normal(32, 32, seed=4), "w": normal(32, 8, seed=5)}
HEAD = "(float[16,32] x) => (float[16,8] y) {"
FLOAT = HEAD + " [first] h = MatMul (x, v) [last] y = MatMul (h, w) }"
QDQ = (
    HEAD
    + """ xq = QuantizeLinear (x, s, z) xd = DequantizeLinear (xq, s, z) [first] h = MatMul (xd, v)
    hq = QuantizeLinear (h, t, z) hd = DequantizeLinear (hq, t, z) [last] y = MatMul (hd, w) }"""
)


def graph(folder: Path, body: str, **told: Any) -> Model:
    folder.mkdir()
    return network(folder, body, WEIGHTS | told)


def in_8_bits(folder: Path, first: float, last: float) -> Model:
    scales = {"s": np.float32(first), "t": np.float32(last), "z": np.int8(0)}
    return graph(folder, QDQ, **{name: np.array(value) for name, value in scales.items()})


def judged(
    folder: Path, model: Model, *, plain: Model | None = None, built: Model | None = None, **told: Any
) -> Verdict:
    """The verdict without a GPU. model: the calibrated graph; built: what TensorRT gets of it."""
    original = graph(folder / "original", FLOAT)
    options: dict[str, Any] = {
        "tolerances": parse_tolerances(**told),
        "expected": None,
        "mode": "graph",
        "gpu": None,
    }
    check = ConversionCheck(original, {"x": X}, InputSource("given"), **options, samples=[{"x": X[::-1]}])
    result = BuildResult(folder / "e.plan", 1, 0.0, "tensorrt_rtx", "1.7.1", ("sm86",), (), (), 1, ())
    calibrated, before = (Rewritten(one, (), ()) for one in (built or model, plain or original))
    request = RunRequest(folder / "e.plan")
    judged = check.graphs(calibrated, "int8", check.baseline(lambda text: None), before, model)
    return check.run(judged, result, request)


def test_a_costly_network_agrees_with_its_own_graph(tmp_path: Path) -> None:
    """The scale of `last` leaves hardly anything of the original; the graph is computed as it is, all the same."""
    verdict = judged(tmp_path, in_8_bits(tmp_path / "q", 0.03, 12.0))
    assert verdict.passed and verdict.reason.startswith("int8 changes 'y' by ")
    assert "; in int8 against the calibrated graph: largest relative error " in verdict.reason
    assert "; before calibration: " in verdict.reason
    assert verdict.cost is not None and verdict.cost.outputs[0].error > 0.5
    assert [one.node for one in verdict.cost.layers] == ["last", "first"]
    assert verdict.cost.layers[0].error > 20 * verdict.cost.layers[1].error
    told = render_verdict(verdict, Path("m.onnx"), Path("m.plan"))
    assert "another class is first in" in told and "(on given and 1 of 1 samples of --calibration)" in told
    assert "\nnext: --keep-fp32 last --keep-fp32 first keeps the costliest layers in float32\n" in told
    assert re.match(r"verdict: agree \(int8 graph; costs \d\d %\): ", told)
    assert Verdict.from_json(verdict.to_json()) == verdict


@pytest.mark.parametrize(
    ("errors", "words"),
    [((0.19, 0.01), "costs 19 %"), ((0.0004,), "costs 0.04 %"), ((1.234,), "costs 123 %"), ((0.0,), "costs 0 %"),
     ((0.1, np.inf), "costs everything"), ((np.nan,), "costs everything")],
)  # fmt: skip
def test_the_worst_output_is_the_cost_in_a_word(errors: tuple[float, ...], words: str) -> None:
    outputs = tuple(OutputCost(f"y{number}", error) for number, error in enumerate(errors))
    assert list(PrecisionCost("int8", "mine", outputs).short()) == [words]
    assert list(PrecisionCost("int8", "mine", ()).short()) == []


def test_max_cost_makes_it_a_condition(tmp_path: Path) -> None:
    model = in_8_bits(tmp_path / "q", 0.03, 12.0)
    verdict = judged(tmp_path, model, max_cost=0.1)
    assert verdict.status == "costs too much" and not verdict.passed and verdict.agrees
    assert verdict.words.startswith("costs too much (int8 graph; costs ")
    assert "int8 changes 'y' by" in verdict.reason and "--max-cost allows 0.1" in verdict.reason
    with pytest.raises(UsageError, match="max-cost"):
        parse_tolerances(max_cost=-1.0)


def test_a_graph_that_was_changed_behind_the_calibration_disagrees(tmp_path: Path) -> None:
    model = in_8_bits(tmp_path / "q", 0.03, 12.0)
    verdict = judged(tmp_path, model, built=in_8_bits(tmp_path / "r", 0.03, 12.1))
    assert verdict.status == "disagree" and "against the calibrated graph" in verdict.reason


def test_a_graph_that_was_wrong_before_calibration_disagrees(tmp_path: Path) -> None:
    """However large the cost, an error of the rewriting is found: it is judged in float32."""
    weights = WEIGHTS | {"w": WEIGHTS["w"] * np.float32(1.001)}
    (tmp_path / "wrong").mkdir()
    wrong = network(tmp_path / "wrong", FLOAT, weights)
    verdict = judged(tmp_path, in_8_bits(tmp_path / "q", 0.03, 12.0), plain=wrong)
    assert verdict.status == "disagree" and verdict.cost is not None


def test_each_layer_alone_costs_what_numpy_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, original = in_8_bits(tmp_path / "q", 0.3, 3.0), graph(tmp_path / "original", FLOAT)
    layers = QuantizedLayers(model, original)
    assert layers.names == ("first", "last")
    plain = Rewritten(original, (), ())
    cost = measured_cost(original, replace(plain, model=model), plain, [{"x": X}], "given", "int8", None)
    exact = X.astype(np.float64) @ WEIGHTS["v"] @ WEIGHTS["w"]
    steps = np.clip(np.rint(X / np.float32(0.3)), -128, 127) * np.float32(0.3)
    alone = float(np.linalg.norm(steps @ WEIGHTS["v"] @ WEIGHTS["w"] - exact) / np.linalg.norm(exact))
    changes = run(layers.side_by_side(), {"x": X})
    first = float(np.linalg.norm(steps @ WEIGHTS["v"] - X @ WEIGHTS["v"]) / np.linalg.norm(X @ WEIGHTS["v"]))
    assert changes[layers.change_of("first")] == pytest.approx(first, rel=1e-3)
    monkeypatch.setattr(measured, "LAYERS", 1)
    fewer = measured_cost(original, replace(plain, model=model), plain, [{"x": X}], "given", "int8", None)
    assert [one.node for one in fewer.layers] == ["last"] and (fewer.tried, fewer.quantized) == (1, 2)
    found = {one.node: one.error for one in cost.layers}
    assert found["first"] == pytest.approx(alone, rel=1e-3) and cost.tried == cost.quantized == 2
