"""A graph run by kernels and onnxruntime in turn: plugin nodes get their inputs and fields, later nodes their outputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.converter.locate.sabotage import located, searched
from tests.converter.models import parsed
from trtsmith.converter.engine.reduction.node_table import NodeTable
from trtsmith.converter.locate.executors.executor import Onnxruntime, probe
from trtsmith.converter.locate.executors.kernels import OnKernels
from trtsmith.converter.locate.searched_graph import SearchOptions
from trtsmith.converter.model.model import Model
from trtsmith.converter.plugin.calls import KernelCall
from trtsmith.converter.rewrite.rewrite import expand, rewrite
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
