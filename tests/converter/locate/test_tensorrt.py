"""Engines with values between nodes as outputs: what is asked of the build, that TensorRT builds it, and what is named."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.converter.locate.graphs import network, x
from tests.converter.locate.sabotage import INFO, FakeTensorRT, located, searched
from tests.converter.models import inverse, parsed
from trtsmith.converter.engine.build.build import build
from trtsmith.converter.engine.build.build_request import BuildRequest, BuildResult
from trtsmith.converter.engine.libraries import plugin_library
from trtsmith.converter.engine.reduction.node_table import NodeTable
from trtsmith.converter.engine.runtime.run_request import RunRequest, RunResult
from trtsmith.converter.locate.executors.executor import Arrays, probe
from trtsmith.converter.locate.executors.tensorrt import OnTensorRT
from trtsmith.converter.locate.searched_graph import SearchOptions
from trtsmith.converter.model.errors import ConversionError
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.shapes import ShapeRange
from trtsmith.converter.rewrite.rewrite import expand, rewrite


def executor(fake: FakeTensorRT, **options) -> OnTensorRT:
    return OnTensorRT(fake.build, fake.run, **options)


def test_the_profile_holds_the_inputs_that_are_fed(tmp_path: Path) -> None:
    model = network(tmp_path / "m.onnx")
    fake = FakeTensorRT()
    executor(fake).execute(model, x(rows=5))
    ranges = {"x": ShapeRange((1, 8), (5, 8), (9, 8))}
    executor(fake, shapes=ranges, flavour="tensorrt_rtx", timeout_s=9.0).execute(model, x(rows=5))
    first, second = (request.profiles[0]["x"] for request in fake.requests)
    assert (first.min, first.opt, first.max) == ((5, 8),) * 3 and not first.values
    assert (second.min, second.opt, second.max) == ((1, 8), (5, 8), (9, 8))
    assert (fake.requests[1].flavour, fake.requests[1].timeout_s) == ("tensorrt_rtx", 9.0)


def test_inputs_that_decide_shapes_have_their_values_in_the_profile(tmp_path: Path) -> None:
    text = "(float[2, 6] a, int64[2] sizes) => (float[n, m] y) { y = Reshape (a, sizes) }"
    model = parsed(tmp_path / "m.onnx", text)
    fake = FakeTensorRT()
    feeds = {"a": np.arange(12, dtype=np.float32).reshape(2, 6), "sizes": np.array([3, 4])}
    executor(fake).execute(model, feeds)
    (profile,) = fake.requests[0].profiles
    assert profile["sizes"].opt == (3, 4) and profile["sizes"].values and "a" not in profile


def test_plugins_of_the_graph_are_asked_for(tmp_path: Path) -> None:
    rewritten = rewrite(load_model(inverse(tmp_path / "m.onnx"))).model
    fake = FakeTensorRT()
    feeds = {"x": np.random.default_rng(1).standard_normal((2, 4, 4)).astype(np.float32)}
    executor(fake, libraries=(Path("/lib.so"),)).execute(rewritten, feeds)
    (request,) = fake.requests
    assert [use.name for use in request.plugins] == ["MatrixInverse"]
    assert request.plugin_libraries == (Path("/lib.so"),)


def test_the_node_is_named_through_engines(tmp_path: Path) -> None:
    def change(graph: onnx.GraphProto) -> None:
        for node in graph.node:
            if node.name == "softmax":
                node.attribute[0].i = 0

    model = network(tmp_path / "m.onnx")
    fake = FakeTensorRT(change)
    found = located(model, executor(fake), x(), SearchOptions())
    assert (found.status, found.nodes[0].name, found.nodes[0].alone) == ("node", "softmax", True)
    assert found.against == "TensorRT"


@pytest.mark.parametrize("native", [False, True])
def test_tensorrt_builds_with_every_value_as_an_output(native: bool, tmp_path: Path) -> None:
    """No GPU is needed to build; only what runs is faked."""
    model = load_model(inverse(tmp_path / "m.onnx")) if not native else network(tmp_path / "m.onnx")
    graph = rewrite(model).model
    feeds = x() if native else {"x": np.ones((2, 4, 4), np.float32) + np.eye(4, dtype=np.float32)}
    view = NodeTable(graph)
    values = probe(expand(graph), view.made, feeds)
    built: list[BuildResult] = []

    def real(request: BuildRequest) -> BuildResult:
        built.append(build(request))
        return built[-1]

    def run(request: RunRequest, given: Sequence[Arrays]) -> RunResult:
        assert request.engine_path.stat().st_size > 1000
        return RunResult(INFO, ({},), 0.0)

    libraries = () if native else (plugin_library(),)
    OnTensorRT(real, run, libraries, flavour="tensorrt_rtx").execute(
        searched(view, values, feeds).marked(view.made), feeds
    )
    assert {tensor.name for tensor in built[0].outputs} == set(view.made)


def test_a_graph_that_tensorrt_refuses_is_a_conversion_error(tmp_path: Path) -> None:
    model = parsed(tmp_path / "m.onnx", "(float[2] a) => (double[2] y) { y = Cast <to = 11> (a) }")
    with pytest.raises(ConversionError):
        OnTensorRT(build, FakeTensorRT().run, flavour="tensorrt_rtx").execute(
            model, {"a": np.ones(2, np.float32)}
        )
