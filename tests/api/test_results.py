"""Return values, exceptions and silence of the public functions."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import trtsmith
from tests.converter.models import inverse, relu, written
from tests.converter.verify.fake_engine import FakeEngine
from trtsmith.arguments import stage_options
from trtsmith.converter.base.options.declared import with_defaults
from trtsmith.converter.base.options.kinds import ranges_of
from trtsmith.converter.base.options.shape_tensors import parse_values
from trtsmith.converter.base.options.shapes import ShapeRange, parse_shapes
from trtsmith.converter.convert.pipeline import ConvertOptions
from trtsmith.converter.verify import candidates, verify_bundle
from trtsmith.converter.verify.tolerances import Tolerances
from trtsmith.converter.verify.verdict import Verdict

SHAPES = ((1, 4, 4), (2, 4, 4), (5, 4, 4))
AXES = "(float[2, 3] x, int64[1] axes) => (float[A, B] y) { y = ReduceSum (x, axes) }"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model of a custom operator, m.onnx, and one with an input to freeze, axes.onnx."""
    monkeypatch.chdir(tmp_path)
    inverse(Path("m.onnx"), ("n", 4, 4))
    written(Path("axes.onnx"), AXES)
    return tmp_path


@pytest.fixture
def engine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    """An engine of m.onnx in e.plan, which onnxruntime runs."""
    trtsmith.convert("m.onnx", "e.plan", shapes={"x": SHAPES}, verify=None)
    fake = FakeEngine(Path("m.onnx"), {"x": SHAPES})
    monkeypatch.setattr(verify_bundle, "describe_engine", fake.describe)
    monkeypatch.setattr(candidates, "run_engine", fake.run)
    return fake


def test_nothing_is_printed_and_progress_is_told(
    engine: FakeEngine, capfd: pytest.CaptureFixture[str]
) -> None:
    """At the level of file descriptors: neither by us, nor by onnxruntime, nor by the process that builds the engine."""
    trtsmith.check("m.onnx", precision="fp16")
    trtsmith.rewrite("m.onnx", "out.onnx")
    trtsmith.convert("m.onnx", "quiet.plan", shapes={"x": SHAPES})
    trtsmith.verify("m.onnx", "e.plan")
    assert len(repr(trtsmith.load_report("e.manifest.json"))) < 300
    assert capfd.readouterr() == ("", "")
    told: list[str] = []
    trtsmith.convert("m.onnx", "told.plan", shapes={"x": SHAPES}, verify=None, progress=told.append)
    assert any(text.startswith("build: ") for text in told)
    told.clear()
    trtsmith.verify("m.onnx", "e.plan", progress=told.append)
    assert "loading the engine" in told
    assert capfd.readouterr() == ("", "")


def test_a_verdict_is_printed_as_its_words(engine: FakeEngine) -> None:
    """`assert done.passed, done.verdict` shows them."""
    verdict = trtsmith.convert("m.onnx", "v.plan", shapes={"x": SHAPES}, flavour="rtx").verdict
    assert verdict is not None and str(verdict) == f"{verdict.words}: {verdict.reason}"
    x = np.ones((2, 4, 4), np.float32)
    given = {"inputs": {"x": x}, "expected": {"y": 7 * x}}
    wrong = trtsmith.convert("m.onnx", "w.plan", shapes={"x": SHAPES}, **given).verdict
    assert wrong is not None and str(wrong).splitlines()[-1] == f"next: {wrong.advice}" != "next: "


@pytest.mark.parametrize(("model", "named"), [("m.onnx", "m.onnx"), (b"", "MODEL")])
def test_the_advice_names_the_model(
    model: str | bytes, named: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Verdict, "advice", "trtsmith locate MODEL finds the faulty node")
    done = trtsmith.convert(model or Path("m.onnx").read_bytes(), shapes={"x": SHAPES}, flavour="rtx")
    assert done.advice == f"trtsmith locate {named} finds the faulty node"


def test_a_model_that_cannot_be_converted_is_a_result_of_check_and_an_error_of_convert(folder: Path) -> None:
    analysis = trtsmith.check("axes.onnx")
    assert not analysis.convertible and [p.where for p in analysis.problems]
    with pytest.raises(trtsmith.ConversionError) as caught:
        trtsmith.convert("axes.onnx", "e.plan")
    assert caught.value.problems == analysis.problems


@pytest.mark.parametrize(
    "given",
    ["axes=[1]", ["axes=[1]"], *({"axes": value} for value in ([1], "[1]", np.array([1]), np.int64([1])))],
)
def test_freeze_takes_arrays_numbers_and_texts(folder: Path, given: Any) -> None:
    analysis = trtsmith.check("axes.onnx", freeze=given)
    assert analysis.convertible and analysis.frozen["axes"].tolist() == [1]
    assert analysis.frozen["axes"].dtype == np.int64


@pytest.mark.parametrize(
    ("freeze", "words"),
    [
        ({"axes": np.array([1.0])}, "float64"),
        ({"axes": [0.5]}, "is not int64"),
        ({"axes": object()}, "is not int64"),
        ({"axes": [[1], [1, 2]]}, "is not a value"),
        ({"axes": 1}, "is a scalar"),
        ({"axis": 1}, "the model has no input 'axis'"),
        ({"axes": ""}, "names no value"),
    ],
)
def test_freeze_refuses_what_does_not_fit(folder: Path, freeze: Any, words: str) -> None:
    with pytest.raises(trtsmith.UsageError, match=words):
        trtsmith.check("axes.onnx", freeze=freeze)


def test_rewrite_writes_only_what_is_named(folder: Path) -> None:
    before = {*os.listdir()}
    analysis = trtsmith.rewrite("m.onnx")
    assert {*os.listdir()} == before
    assert [node.op_type for node in analysis.graph.proto.graph.node] == ["Neg", "MatrixInverse"]
    expanded = trtsmith.rewrite("m.onnx", "out.onnx", expand=True)
    assert {node.domain for node in onnx.load("out.onnx").graph.node} == {""}
    assert expanded.graph.proto.graph.node == onnx.load("out.onnx").graph.node
    assert [record.op_type for record in expanded.rewritten.rewrites] == ["com.microsoft::Inverse"]
    v2 = trtsmith.rewrite("m.onnx", plugin_v2=True)
    assert [node.domain for node in v2.graph.proto.graph.node] == ["", "trtsmith"]
    with pytest.raises(trtsmith.UsageError, match="are both given"):
        trtsmith.rewrite("m.onnx", expand=True, plugin_v2=True)


def test_verify_is_the_engine_against_the_original(engine: FakeEngine) -> None:
    verdict = trtsmith.verify("m.onnx", "e.plan")
    assert verdict.passed and verdict.engine_run
    assert [c.at for c in verdict.comparisons] == ["min", "opt", "max"]
    engine.planted = lambda outputs: {"y": outputs["y"] * 1.01}
    assert trtsmith.verify("m.onnx", "e.plan").status == "disagree"
    assert trtsmith.verify("m.onnx", "e.plan", rtol={"y": 0.1}).passed
    assert trtsmith.verify("m.onnx", "e.plan", rtol=0.1).passed
    assert trtsmith.verify("m.onnx", "e.plan", precision="bf16").passed
    engine.asked.clear()
    trtsmith.verify("m.onnx", "e.plan", shapes={"x": (3, 4, 4)})
    assert [one["x"].shape for one in engine.asked] == [(3, 4, 4)]


def test_verify_says_that_the_engine_is_of_another_model(engine: FakeEngine) -> None:
    inverse(Path("other.onnx"), ("n", 4, 4), name="renamed")
    verdict = trtsmith.verify("other.onnx", "e.plan")
    assert verdict.passed and "built from another model than other.onnx" in verdict.warnings[0]
    relu(Path("far.onnx"))
    with pytest.raises(trtsmith.UsageError) as caught:
        trtsmith.verify("far.onnx", "e.plan")
    assert "built from another model than far.onnx" in caught.value.problems[-1].what


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"flavour": "tensorflow"}, "no TensorRT flavour 'tensorflow'"),
    ({"precision": "fp12"}, "'fp12' is not a value of precision"),
    ({"max_cost": 0.1}, "max_cost has no effect without precision"),
    (
        {"max_cost": 0.1, "precision": "int8", "verify": None},
        "max_cost needs the comparison, which is turned off",
    ),
    ({"keep_fp32": "Conv"}, "keep_fp32 has no effect without precision"),
    ({"precision": "int8", "io_precision": True}, 'io_precision=True has no effect with precision="int8"'),
    ({"target": "86"}, "'86' is not a list of GPU targets"),
    ({"target": "rtx4091"}, "did you mean RTX 4090 (sm89)"),
    ({"target": 86}, 'write it as target="sm86,sm89"'),
    ({"shapes": 3}, 'write it as shapes={"x": [(1, 4), (2, 4), (8, 4)]}'),
    ({"shapes": {"x": None}}, "'x=None' is not a shape"),
    ({"shapes": {"x": [1, (2,)]}}, "'x=1:2' is not a shape"),
    ({"shapes": {"x": (None, 4, 4)}}, "'x=Nonex4x4' is not a shape: 'None' is no size"),
    ({"shapes": {"x": (1.0, 4, 4)}}, 'shapes="x=1x3x320x320:1x3x640x640:8x3x1280x1280"'),
    ({"values": 3}, 'write it as values={"sizes"'),
    ({"freeze": 3}, 'write it as freeze={"axes": [0, 1]}'),
    ({"plugins": [3]}, 'write it as plugins=["folder/file"]'),
    ({"timing_cache": 3}, "expected: a path"),
    ({"keep_fp32": ["Conv", 3], "workspace": "1"}, "workspace is of the type str"),
    ({"workspace": "4GB"}, "write it as workspace=4096"),
    ({"workspace": "512 MiB"}, "write it as workspace=512"),
    ({"workspace": "2g"}, "write it as workspace=2048"),
    ({"workspace": "much"}, "expected: a whole number of MiB"),
    ({"reference": 3}, "expected: a function or its name"),
    ({"rtol": b"1"}, "expected: a number"),
    ({"progress": True}, "expected: a function of a line of text"),
    ({"workspace": 0}, "0 is not a value of workspace"),
    ({"workspace": True}, "True is not a value of workspace"),
    ({"optimization_level": 6}, "6 is not a value of optimization_level"),
    ({"timeout": float("nan")}, "nan is not a value of timeout"),
    ({"verify": "nothing"}, "'nothing' is not a value of verify"),
    ({"rtol": -1}, "'-1' is not a tolerance"),
    ({"atol": {"y": "much"}}, "'y:much' is not a tolerance"),
    ({"shapes": {"x": (1, -4)}}, "'x=1x-4' is not a shape"),
    ({"shapes": {"x": SHAPES[::-1]}}, "contradict each other"),
    ({"values": {"x": [0.5]}}, "values that are not whole numbers"),
    ({"timing_cache": "m.onnx"}, "the timing cache would replace m.onnx"),
    ({"inputs": "none.npz", "shapes": {"x": SHAPES}}, "the file cannot be read"),
]


@pytest.mark.parametrize(("options", "words"), WRONG, ids=lambda value: str(value)[:40])
def test_wrong_options_are_refused_in_four_parts(folder: Path, options: dict[str, Any], words: str) -> None:
    before = Path("m.onnx").read_bytes()
    with pytest.raises(trtsmith.UsageError) as caught:
        trtsmith.convert("m.onnx", "e.plan", **options)
    assert words in str(caught.value)
    assert all((p.what, p.where, p.expected, p.fix) for p in caught.value.problems)
    assert Path("m.onnx").read_bytes() == before and not Path("e.plan").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"precision": "fp12"}, "'fp12' is not a value of precision"),
        ({"timeout": 0}, "0 is not a value of timeout"),
        ({"expected": "y.npz"}, "outputs are given without their inputs"),
        ({"inputs": "x.npz", "shapes": {"x": (1, 4, 4)}}, "shapes and inputs are both given"),
        ({"flavour": "tensorrt"}, "tensorrt cannot load it"),
    ],
)
def test_wrong_options_of_verify(engine: FakeEngine, options: dict[str, Any], words: str) -> None:
    with pytest.raises(trtsmith.UsageError, match=words):
        trtsmith.verify("m.onnx", "e.plan", **options)
    assert engine.requests == []


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(trtsmith.UsageError) as caught:
        ConvertOptions(Path("m"), Path("e"), targets=("86", "sm90"), workspace=-1, timeout_s=0)
    assert [p.where.split()[0] for p in caught.value.problems] == ["--target", "--workspace", "--timeout"]


def test_texts_of_the_command_line_are_taken(folder: Path) -> None:
    done = trtsmith.convert("m.onnx", shapes="x=1x4x4:2x4x4:8x4x4", target="sm86, RTX 4090", rtol="y:1e-3")
    assert done.passed and done.built.targets == ("sm86", "sm89") and done.built.inputs[0].shape == (-1, 4, 4)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ((1, 3), ShapeRange((1, 3), (1, 3), (1, 3))),
        ([[1, 3], (2, 3), np.array([4, 3])], ShapeRange((1, 3), (2, 3), (4, 3))),
        ("1x3:2x3:4x3", ShapeRange((1, 3), (2, 3), (4, 3))),
        ([np.int64(5)], ShapeRange((5,), (5,), (5,))),
    ],
)
def test_shapes(given: Any, read: ShapeRange) -> None:
    assert parse_shapes(ranges_of({"x": given}, "x", "{}")) == {"x": read}
    assert parse_shapes(ranges_of(f"x={read}", "x", "{}")) == {"x": read}
    assert parse_shapes(ranges_of([f"x={read}", "y:3"], "x", "{}"))["x"] == read


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (3, ShapeRange((3,), (3,), (3,))),
        ([2, 3], ShapeRange((2, 3), (2, 3), (2, 3))),
        (([1, 1], [2, 3], [8, 8]), ShapeRange((1, 1), (2, 3), (8, 8))),
        ("1:2:8", ShapeRange((1,), (2,), (8,))),
    ],
)
def test_values(given: Any, read: ShapeRange) -> None:
    assert parse_values(ranges_of({"k=2": given}, ",", "[{}]")) == {"k=2": read}


def test_tolerances() -> None:
    told = stage_options(
        Tolerances,
        Tolerances,
        with_defaults(Tolerances, {"rtol": 1e-3, "atol": {"a:b": np.float32(0.5), "": 2}}),
    )
    assert (told.rtol, told.atol) == ({"": 1e-3}, {"a:b": 0.5, "": 2.0})
    assert not stage_options(Tolerances, Tolerances, with_defaults(Tolerances, {}))


def test_runner_goes_by_the_manifest(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    module = "trtsmith.converter.engine.runtime.runner."
    monkeypatch.setattr(module + "Device", lambda number: number)
    monkeypatch.setattr(module + "load_flavour", lambda name: name)
    monkeypatch.setattr(module + "process_log", lambda flavour: None)
    monkeypatch.setattr(trtsmith.Runner, "of_request", classmethod(lambda cls, *given: asked.append(given)))
    trtsmith.Runner.load("e.plan", plugins=["mine.so"], cuda_graph=True, device=1)
    ((request, device, flavour, _),) = asked
    assert (device, flavour, request.cuda_graph) == (1, "tensorrt_rtx", True)
    assert [path.name for path in request.plugin_libraries] == ["libtrtsmith_plugins.so", "mine.so"]
    manifest = json.loads(Path("e.manifest.json").read_text())
    assert request.built_version == manifest["tensorrt"]["version"]
