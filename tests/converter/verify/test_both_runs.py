"""Quantised networks, of which onnxruntime's optimiser makes others."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.converter.cli.commands.running import trtsmith
from trtsmith.converter.engine.runtime.run_request import RunRequest
from trtsmith.converter.model.errors import ConversionError
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run
from trtsmith.converter.verify import conversion_check, engine
from trtsmith.converter.verify.both_runs import is_quantised, judged_by_both
from trtsmith.converter.verify.compare import Arrays, compare
from trtsmith.converter.verify.sets import InputSet
from trtsmith.converter.verify.verdict import Verdict, judge
from trtsmith.importers.problem import Problem


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


def agreement(expected: Arrays, actual: Arrays) -> Verdict:
    return judge(compare(expected, actual), "i", engine_run=False)


def test_the_verdict_says_which_run_the_outputs_agree_with(tmp_path: Path) -> None:
    model = load_model(quantised(tmp_path))
    optimised, plain = run(model, FEEDS), run(model, FEEDS, optimise=False)
    assert not agreement(optimised, plain).passed, "onnxruntime's optimiser changes nothing any more"

    def verdict_on(actual: Arrays) -> Verdict:
        first = agreement(optimised, actual)
        return judged_by_both(
            model, first, [optimised], lambda: [plain], lambda own: agreement(own[0], actual)
        )

    as_plain, as_optimised, wrong = verdict_on(plain), verdict_on(optimised), verdict_on({"y": -plain["y"]})
    assert as_plain.passed and as_plain.references[0].endswith(
        "agree with the plain run, not with the optimised one"
    )
    assert as_optimised.passed
    assert as_optimised.references[0].endswith("agree with the optimised run, not with the plain one")
    assert wrong.status == "disagree" and wrong.references[0].endswith("agree with neither")
    apart = float(as_plain.references[0].split("differ by ")[1].split(":")[0])
    assert 1e-4 < apart < 0.1


def test_the_plain_run_is_not_made_for_nothing(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(
        onnx.parser.parse_model(
            '<ir_version: 8, opset_import: ["" : 17]> g (float[3] x) => (float[3] y) { y = Exp (x) }'
        ),
        path,
    )
    model = load_model(path)
    y = {"y": np.ones(3, np.float32)}

    def never(*_: object) -> list[Arrays]:
        raise AssertionError

    assert not is_quantised(model)
    assert judged_by_both(model, agreement(y, y), [y], never, never).references == ()
    wrong = agreement(y, {"y": 2 * y["y"]})
    same = judged_by_both(model, wrong, [y], lambda: [y], lambda own: wrong)
    assert same is wrong, "two runs that do not differ explain nothing"

    def fails() -> list[Arrays]:
        raise ConversionError(Problem("a", "b", "c", "d"))

    assert judged_by_both(model, wrong, [y], fails, never) is wrong


def test_a_graph_that_onnxruntime_fuses_otherwise_agrees(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the rewritten graph onnxruntime is kept from fusing anything: its results are those of the plain run."""
    pytest.importorskip("tensorrt_rtx")
    quantised(tmp_path)
    monkeypatch.chdir(tmp_path)
    checked = conversion_check.verify_graphs

    def unfused(original: Model, rewritten: Model, *rest: object, **told: object) -> Verdict:
        proto = onnx.ModelProto()
        proto.CopyFrom(rewritten.proto)
        made = [n.output[0] for n in proto.graph.node if n.op_type in ("DequantizeLinear", "Conv")]
        proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in made if name != "y")
        found: Verdict = checked(original, rewritten.with_proto(proto), *rest, **told)  # type: ignore[arg-type]
        return found

    monkeypatch.setattr(conversion_check, "verify_graphs", unfused)
    np.savez("x.npz", **FEEDS)
    ran = trtsmith(capsys, "convert", "m.onnx", "-o", "e.plan", "-q", "--target", "sm86", "--inputs", "x.npz")
    assert ran.code == 0
    assert "the outputs agree with the plain run, not with the optimised one" in ran.out
    verdict = json.loads(Path("e.manifest.json").read_text())["verdict"]
    assert "optimised and plain runs of the original differ by" in verdict["references"][0]


def test_an_engine_is_judged_by_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_model(quantised(tmp_path))
    plain = run(model, FEEDS, optimise=False)

    class Result:
        outputs = ({"y": plain["y"]},)
        warnings = ()

    monkeypatch.setattr(engine, "run_engine", lambda *_: Result)
    verdict = engine.verify_engine(
        model,
        RunRequest(tmp_path / "e.plan"),
        (InputSet("", FEEDS),),
        "mine",
        engine_inputs={"x"},
        precision="fp32",
    )
    assert verdict.passed
    assert verdict.references[0].endswith("the plain run, not with the optimised one")
