"""The stage from options to record: real models, real builds, fake times."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.converter.models import inverse, written
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.bench import engine_bench as stage
from trtsmith.converter.bench import native_bench, subject
from trtsmith.converter.bench.against import ExpectedOutputs
from trtsmith.converter.bench.engine_bench import bench
from trtsmith.converter.bench.points import Point
from trtsmith.converter.bench.subject import BenchOptions, Subject, open_source
from trtsmith.converter.bench.timed_engine import Timed, TimingOptions
from trtsmith.converter.bench.timing import Summary
from trtsmith.converter.cli.reports import native_times
from trtsmith.converter.cli.reports.engine_times import render
from trtsmith.converter.engine.child.process import ChildDied
from trtsmith.converter.engine.runtime.run_request import RunRequest
from trtsmith.converter.engine.runtime.tensors import EngineInfo, TensorSpec
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.ort import run as run_onnxruntime
from trtsmith.converter.rewrite.rewrite import reference
from trtsmith.converter.rewrite.types import to_model
from trtsmith.converter.verify.baseline import Baseline
from trtsmith.converter.verify.sets import InputSet
from trtsmith.importers.problem import Problem

INFO = EngineInfo(
    "tensorrt_rtx",
    "1.7.1.116",
    "G",
    "8.6",
    (TensorSpec("x", "float32", (2, 3, 3), True),),
    (TensorSpec("y", "float32", (2, 3, 3), False),),
    1,
    4096,
)
QUICK = TimingOptions(warmup_s=0.0, duration_s=0.0, iterations=2, graphs=(False,))


def timed(model: Path, timing: TimingOptions = QUICK, **options: Any) -> dict[str, Any]:
    return bench(BenchOptions(model, timing=timing, **options), lambda step: None)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Neg and Inverse."""
    return inverse(tmp_path / "m.onnx")


def run_of(point: Point, ms: float, *, graph: bool = False) -> dict[str, Any]:
    times = Summary.of([ms] * 3).to_json()
    return {
        "point": point.label,
        "shapes": point.sizes(),
        "batch": point.batch(),
        "cuda_graph": graph,
        "streams": 1,
        "transfers": True,
        "queries": 3,
        "wall_s": 3 * ms / 1e3,
        "throughput": 1e3 / ms,
        "samples_per_s": 1e3 / ms,
        **{f"{name}_ms": times for name in ("latency", "enqueue", "h2d", "compute", "d2h", "response")},
    }


class Engines:
    """Stands for the GPU: engines compute what onnxruntime makes of the model, in times that are made up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, model: Path, off: float = 0.0) -> None:
        self.timed: list[str] = []
        self.refused: frozenset[str] = frozenset()
        self.model, self.off = model, off
        self.layers: tuple[dict[str, float], ...] = ()
        self.no_graph = ""
        self.frozen: dict[str, np.ndarray] = {}
        self.dtype: Any = np.float32
        self.profiled: list[int] = []
        inputs = {v.name: v for v in load_model(model).proto.graph.input}
        (name, value), *_ = inputs.items()
        shape = tuple(d.dim_value or 2 for d in value.type.tensor_type.shape.dim)
        self.info = replace(INFO, inputs=(TensorSpec(name, "float32", shape, True),))
        monkeypatch.setattr(subject, "describe_engine", self.describe)
        monkeypatch.setattr(stage, "time_engine", self.time)

    def describe(self, run: RunRequest) -> EngineInfo:
        if run.engine_path.stem in self.refused:
            raise UsageError(
                Problem("no engine of this runs here", str(run.engine_path), "another GPU", "get one")
            )
        return self.info

    def time(
        self, run: RunRequest, points: Sequence[Point], timing: TimingOptions, layers: int, progress: Any
    ) -> Timed:
        name = run.engine_path.stem
        self.timed.append(name)
        self.profiled.append(layers)
        outputs = run_onnxruntime(reference(load_model(self.model)), {**points[0].feeds, **self.frozen})
        outputs = {n: v + np.float32(self.off) for n, v in to_model(outputs, run.io_types).items()}
        outputs = {n: v.astype(self.dtype) for n, v in outputs.items()}
        runs = tuple(run_of(point, 6.0 if name == "native" else 2.0) for point in points)
        if self.no_graph:
            runs = tuple({**run, "cuda_graph": True, "unavailable": self.no_graph} for run in runs)
        return Timed(runs, outputs, self.layers, "", None, ("a warning of the runner's",))


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch, model: Path) -> Engines:
    return Engines(monkeypatch, model)


def test_a_model_is_built_and_timed_and_the_record_is_complete(engines: Engines, model: Path) -> None:
    engines.layers = ({"Inverse/MatrixInverse": 3.0, "other": 1.0},)
    document = timed(model)
    assert engines.timed == ["plugin"]
    assert json.loads(json.dumps(document)) == document
    assert document["engine"]["bytes"] > 1000 and document["engine"]["device_memory"] == 4096
    assert document["runs"][0]["remarks"] and document["libraries"]
    assert document["outputs"][0]["nan"] == 0
    assert document["warnings"] == ["a warning of the runner's"]
    assert document["against"] == [] and document["plugin_vs_native"] is None
    assert document["layers"]["sum_ms"] == 4.0 and engines.profiled == [stage.PROFILED]
    assert "throughput" in render(document, 5)


def test_the_plugins_layer_is_known_by_the_name_of_its_node(
    engines: Engines, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}
    real = subject.plugin_engine

    def spy(*arguments: Any) -> Subject:
        made = real(*arguments)
        seen.update(made.nodes)
        return made

    monkeypatch.setattr(stage, "plugin_engine", spy)
    timed(model)
    assert [node.op_type for node in seen.values() if node.plugin] == ["MatrixInverse"]


def test_against_onnxruntime_in_the_same_run(engines: Engines, model: Path) -> None:
    document = timed(model, against=("onnxruntime",))
    (baseline,) = document["against"]
    assert baseline["agrees"] and baseline["ratio"] == pytest.approx(
        baseline["response_ms"]["median"] / 2.0, rel=1e-3
    )


def test_an_engine_that_is_wrong_does_not_agree(monkeypatch: pytest.MonkeyPatch, model: Path) -> None:
    Engines(monkeypatch, model, off=0.5)
    document = timed(model, against=("onnxruntime",))
    assert not document["against"][0]["agrees"]


def test_nan_in_outputs_is_warned_of(monkeypatch: pytest.MonkeyPatch, model: Path) -> None:
    Engines(monkeypatch, model, off=float("nan"))
    document = timed(model)
    assert document["outputs"][0]["nan"] == document["outputs"][0]["elements"] > 0
    assert "is NaN throughout" in document["warnings"][-1]


def test_nan_is_counted_in_types_that_numpy_does_not_know(engines: Engines, model: Path) -> None:
    engines.off, engines.dtype = float("nan"), ml_dtypes.bfloat16
    (output,) = timed(model)["outputs"]
    assert output["dtype"] == "bfloat16" and output["nan"] == output["elements"] > 0


def test_no_layers_are_profiled_where_none_are_asked_for(engines: Engines, model: Path) -> None:
    document = timed(model, layers=0)
    assert engines.profiled == [0] and document["layers"] is None


def test_what_is_frozen_reaches_those_who_run_the_model_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = written(tmp_path / "m.onnx", "(float[2,3] x, float[1] k) => (float[2,3] y) { y = Mul (x, k) }")
    engines = Engines(monkeypatch, path)
    engines.frozen = {"k": np.array([3.0], np.float32)}
    document = timed(path, freeze=("k=[3]",), against=("onnxruntime",), plugin_vs_native=True)
    (baseline,) = document["against"]
    assert baseline["agrees"] and document["plugin_vs_native"]["plugin"]["agrees"]


def test_the_users_module_is_looked_for_in_the_working_folder(
    engines: Engines, model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    (tmp_path / "code").mkdir()
    code = "import torch\ndef make(inputs):\n    return lambda: torch.linalg.inv(-inputs['x'])\n"
    (tmp_path / "code" / "in_the_working_folder.py").write_text(code)
    monkeypatch.chdir(tmp_path / "code")
    (baseline,) = timed(model, against=("torch",), torch="in_the_working_folder:make")["against"]
    assert baseline["agrees"]


def test_plugin_against_native_builds_both(engines: Engines, model: Path) -> None:
    document = timed(model, plugin_vs_native=True)
    assert engines.timed == ["plugin", "native"]
    assert document["runs"][0]["compute_ms"]["median"] == 2.0  # the record is about the plugin engine
    account = document["plugin_vs_native"]
    assert account["ratio"] == 3.0 and account["reason"] is None and account["nodes"] is None
    for side in ("plugin", "native"):
        assert account[side]["agrees"] and account[side]["error"] < 1e-4
        assert account[side]["engine_bytes"] > 1000 and account[side]["device_memory"] == 4096
    text = native_times.render(account)
    assert "native takes 3 times as long as plugin" in text


def test_where_no_engine_with_plugins_runs_each_node_is_timed_alone(
    engines: Engines, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []

    def child(module: str, request: str, flavour: str, **more: Any) -> dict[str, Any]:
        asked.append(json.loads(request))
        figures = {"median_us": 5.0, "error": 1e-7}
        return {"plugin": figures, "native": {**figures, "median_us": 20.0}}

    engines.refused = frozenset({"plugin"})
    monkeypatch.setattr(native_bench, "run_child", child)
    patient = replace(QUICK, iterations=47)
    document = timed(model, patient, plugin_vs_native=True)
    assert engines.timed == ["native"]
    account = document["plugin_vs_native"]
    assert account["reason"] == account["plugin"]["unavailable"] == "no engine of this runs here"
    (row,) = account["nodes"]
    assert (row["op"], row["dtype"], row["ratio"]) == ("MatrixInverse", "float32", 4.0)
    assert asked[0]["op"] == "MatrixInverse" and asked[0]["count"] == 47
    text = native_times.render(account)
    assert "not available: no engine of this runs here" in text and "x4" in text


def test_engines_of_which_no_run_was_possible_are_no_sides(
    engines: Engines, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--cuda-graph on, and the engines cannot be captured."""
    engines.no_graph = "no CUDA graph is used: a loop"
    figures = {"median_us": 5.0, "error": 1e-7}
    monkeypatch.setattr(native_bench, "run_child", lambda *_, **more: {"plugin": figures, "native": figures})
    document = timed(model, plugin_vs_native=True)
    assert engines.timed == ["plugin", "native"]
    account = document["plugin_vs_native"]
    assert account["plugin"] == account["native"] == {"unavailable": engines.no_graph}
    assert account["reason"] == engines.no_graph and account["ratio"] is None
    assert [row["op"] for row in account["nodes"]] == ["MatrixInverse"]
    assert "not available: no CUDA graph" in native_times.render(account)


def test_a_native_engine_that_does_not_run_leaves_the_other(engines: Engines, model: Path) -> None:
    engines.refused = frozenset({"native"})
    document = timed(model, plugin_vs_native=True)
    account = document["plugin_vs_native"]
    assert account["native"] == {"unavailable": "no engine of this runs here"}
    assert account["reason"] is None and account["plugin"]["agrees"] and account["nodes"] is None


@pytest.mark.parametrize(
    ("expected", "actual", "agrees"),
    [
        pytest.param(None, [1.0, 1.0], None, id="nothing to compare with"),
        pytest.param([0.0, 0.0], [1.0, 2.0], False, id="a reference of zeros"),
        pytest.param([1.0, 2.0], [np.inf, np.nan], False, id="no number to compare"),
    ],
)
def test_an_error_that_is_no_number_is_not_told(
    model: Path, tmp_path: Path, expected: list[float] | None, actual: list[float], agrees: bool | None
) -> None:
    (tmp_path / "m.plan").write_bytes(b"an engine")
    timed = Timed((run_of(Point("opt", {}), 2.0),), {"y": np.array(actual)}, (), "", None, ())
    judge = ExpectedOutputs()
    if expected is not None:
        known = [{"y": np.array(expected)}]
        judge = ExpectedOutputs(Baseline(load_model(model), [InputSet("", {})], known=known, roundings={}))
    side = native_bench.side(Subject(RunRequest(tmp_path / "m.plan"), INFO, {}), timed, judge)
    assert side["agrees"] is agrees and side["error"] is None and side["reason"]


def test_a_node_whose_process_dies_says_how(
    engines: Engines, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*arguments: Any, **more: Any) -> dict[str, Any]:
        raise ChildDied("died of SIGSEGV", "timing", "", timed_out=False)

    engines.refused = frozenset({"plugin"})
    monkeypatch.setattr(native_bench, "run_child", dies)
    document = timed(model, plugin_vs_native=True)
    (row,) = document["plugin_vs_native"]["nodes"]
    assert row["plugin"] == row["native"] == {"unavailable": "its process died of SIGSEGV while timing"}


def test_a_node_that_cannot_be_timed_says_why(engines: Engines, model: Path) -> None:
    """Here there is no GPU: the child process says so, and the rest of the record stands."""
    engines.refused = frozenset({"plugin"})
    document = timed(model, plugin_vs_native=True)
    (row,) = document["plugin_vs_native"]["nodes"]
    assert row["ratio"] is None and row["plugin"]["unavailable"]


@pytest.fixture
def some(tmp_path: Path) -> Path:
    """NonZero: a plugin for TensorRT-RTX alone."""
    text = "(float[3,2] x) => (int64[2,n] y) { [r] r = Relu (x) [some] y = NonZero (r) }"
    return written(tmp_path / "some.onnx", text)


@pytest.mark.parametrize(
    ("flavour", "plugins"), [("tensorrt_rtx", {"NonZeroPositions"}), ("tensorrt", set())]
)
def test_the_graph_is_the_one_that_the_engine_is_built_of(
    some: Path, flavour: str, plugins: set[str]
) -> None:
    source = open_source(BenchOptions(some, flavour=flavour))
    nodes = source.rewritten.model.proto.graph.node
    assert {node.op_type for node in nodes if node.domain == "trtsmith"} == plugins


def test_a_node_whose_number_of_results_depends_on_values_is_not_timed_alone(
    monkeypatch: pytest.MonkeyPatch, some: Path
) -> None:
    monkeypatch.setattr(native_bench, "run_child", None)
    source = open_source(BenchOptions(some, flavour="tensorrt_rtx"))
    feeds = {"x": np.array([[1.0, -2.0]] * 3, np.float32)}
    rows, without = native_bench.time_nodes(source, feeds, 3, "tensorrt_rtx", lambda step: None)
    assert without is None and rows is not None
    assert [(row["op"], row["dtype"], row["ratio"]) for row in rows] == [
        ("NonZeroPositions", "float32", None)
    ]
    assert "depends on values" in rows[0]["plugin"]["unavailable"]


def test_a_model_of_which_no_engine_runs_is_an_error(engines: Engines, model: Path) -> None:
    engines.refused = frozenset({"plugin", "native"})
    with pytest.raises(UsageError, match="no engine of this runs here"):
        timed(model, plugin_vs_native=True)
    with pytest.raises(UsageError, match="no engine of this runs here"):
        timed(model)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"plugin_vs_native": True}, "needs a model, and an engine is given"),
        ({"freeze": ("k=3",)}, "needs a model, and an engine is given"),
        ({"inputs": Path("x.npz"), "at": ("min",)}, "already sets the shapes"),
        ({"against": ("onnxruntime",)}, "baselines need the model"),
    ],
)
def test_flags_that_do_not_fit_an_engine(tmp_path: Path, options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        bench(BenchOptions(tmp_path / "m.plan", **options), lambda step: None)
