"""Executors of a graph: kernels and onnxruntime in turn, engines with inner values as outputs, types across an edge."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx import helper as oh

from tests.converter.locate.graphs import network, x
from tests.converter.locate.sabotage import INFO, FakeTensorRT, located, searched
from tests.converter.models import inverse, load, parsed, value
from trtsmith.converter.base.errors import ConversionError
from trtsmith.converter.base.options.shapes import ShapeRange
from trtsmith.converter.engine.builder.build import build
from trtsmith.converter.engine.builder.build_request import BuildRequest, BuildResult
from trtsmith.converter.engine.libraries import plugin_library
from trtsmith.converter.engine.reduction.node_table import NodeTable
from trtsmith.converter.engine.runtime.run_request import RunRequest, RunResult
from trtsmith.converter.locate.executors.executor import Onnxruntime, plain_edges, probe
from trtsmith.converter.locate.executors.kernels import OnKernels
from trtsmith.converter.locate.executors.tensorrt import OnTensorRT
from trtsmith.converter.locate.searched_graph import SearchOptions
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.plugin.calls import KernelCall
from trtsmith.converter.rewrite.rewrite import expand, rewrite
from trtsmith.importers.opdef import Arrays
from trtsmith.importers.registry import by_name

X = np.random.default_rng(8).standard_normal((2, 3, 3)).astype(np.float32) + 3 * np.eye(3, dtype=np.float32)


class References:
    """Kernels that compute what the definitions' references do. wrong: which call, from 1 on, gives the transposed."""

    def __init__(self, wrong: int = 0) -> None:
        self.calls: list[KernelCall] = []
        self._wrong = wrong

    def call(self, plugin: str, call: KernelCall) -> list[np.ndarray]:
        self.calls.append(call)
        op = by_name()[plugin]
        ports = dict(zip((port.name for port in op.inputs), call.inputs, strict=False))
        outputs = op.reference(call.fields, ports)
        arrays = [outputs[port.name].astype(call.inputs[0].dtype) for port in op.outputs]
        wrong = self._wrong and len(self.calls) % 2 == self._wrong % 2
        return [np.ascontiguousarray(a.swapaxes(-1, -2)) for a in arrays] if wrong else arrays


TWICE = """(float[2, 3, 3] x) => (float[2, 3, 3] y) { [neg] n = Neg (x) [one] i = com.microsoft.Inverse (n)
    [sum] s = Sum (i, c, n) [two] j = com.microsoft.Inverse (s) [mul] y = Mul (j, i) }"""


def twice(path: Path) -> Model:
    return parsed(path, TWICE, {"c": np.diag([1, 2, 4]).astype(np.float32)})


def test_the_graph_is_computed_in_turns(tmp_path: Path) -> None:
    model = rewrite(twice(tmp_path / "m.onnx")).model
    kernels = References()
    view = NodeTable(model)
    values = probe(expand(model), view.made, {"x": X})
    marked = searched(view, values, {}).marked(view.made)
    found = OnKernels(kernels).execute(marked, {"x": X})
    wanted = Onnxruntime().execute(marked, {"x": X})
    assert found.keys() == wanted.keys() and len(kernels.calls) == 2
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=2e-3, atol=1e-5)
    np.testing.assert_array_equal(kernels.calls[0].inputs[0], -X)


def test_fields_and_constant_inputs_reach_the_kernel(tmp_path: Path) -> None:
    text = """(float[1, 2, 6, 5] x, float[1, 18, 6, 5] o, float[1, 9, 6, 5] m) => (float[1, 4, 6, 5] y) {
        [dcn] y = mmcv.MMCVModulatedDeformConv2d <stride = [1, 1], padding = [1, 1], dilation = [1, 1], groups = 1,
            deform_groups = 1> (x, o, m, w) }"""
    rng = np.random.default_rng(4)
    weights = rng.standard_normal((4, 2, 3, 3)).astype(np.float32)
    shapes = {"x": (1, 2, 6, 5), "o": (1, 18, 6, 5), "m": (1, 9, 6, 5)}
    model = parsed(tmp_path / "m.onnx", text, {"w": weights})
    feeds = {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
    kernels = References()
    rewritten = rewrite(model).model
    (y,) = OnKernels(kernels).execute(rewritten, feeds).values()
    np.testing.assert_allclose(y, Onnxruntime().execute(rewritten, feeds)["y"], rtol=1e-3, atol=1e-4)
    (call,) = kernels.calls
    assert call.fields["padding"] == (1, 1, 1, 1) and any(np.array_equal(a, weights) for a in call.inputs)


@pytest.mark.parametrize(("wrong", "name"), [(1, "one"), (2, "two"), (0, "")])
def test_a_broken_kernel_is_named_where_it_stands(wrong: int, name: str, tmp_path: Path) -> None:
    model = twice(tmp_path / "m.onnx")
    found = located(model, OnKernels(References(wrong)), {"x": X}, SearchOptions())
    assert found.status == ("node" if name else "agree")
    assert [node.name for node in found.nodes[:1]] == ([f"{name}/MatrixInverse"] if name else [])


def test_a_graph_without_plugin_nodes_is_onnxruntimes(tmp_path: Path) -> None:
    model = parsed(tmp_path / "m.onnx", "(float[3] x) => (float[3] y) { y = Neg (x) }")
    assert OnKernels(References()).execute(model, {"x": X[0, 0]})["y"].tolist() == (-X[0, 0]).tolist()


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
def test_odd_types_cross_as_float32(dtype: type, tmp_path: Path) -> None:
    elem_type = oh.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [oh.make_node("Identity", ["x"], ["h"]), oh.make_node("Cast", ["h"], ["z"], to=TensorProto.FLOAT)]
    outputs = [value("h", [3], elem_type), value("z", [3])]
    model = load(tmp_path / "m.onnx", nodes, [value("x", [3], elem_type)], outputs, opset=19)
    edges = plain_edges(model)
    onnx.checker.check_model(edges.model.proto, full_check=True)
    types = {
        v.type.tensor_type.elem_type
        for v in (*edges.model.proto.graph.input, *edges.model.proto.graph.output)
    }
    assert types == {TensorProto.FLOAT}
    x = np.array([0.3, -1.7, 200.0]).astype(dtype)
    assert x.astype(np.float32)[0] != np.float32(0.3)
    (put,) = edges.put_in({"x": x}).values()
    assert put.dtype == np.float32 and np.array_equal(put.astype(dtype), x)
    found = Onnxruntime().execute(model, {"x": x})
    assert found["h"].dtype == np.dtype(dtype) and np.array_equal(found["h"], x)
    assert np.array_equal(found["z"], x.astype(np.float32))


def test_plain_models_are_left_alone(tmp_path: Path) -> None:
    model = parsed(tmp_path / "m.onnx", "(float[1] x) => (float[1] y) { y = Neg (x) }")
    assert plain_edges(model).model is model


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
