"""Plugins with a workspace in a branch of an If: TensorRT-RTX's builds and numbers."""

from pathlib import Path

import numpy as np
import pytest

from tests.converter.rewrite.running import engine_size, loaded
from trtsmith.converter.convert.plan import plan
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.rewrite import expand, rewrite
from trtsmith.converter.rewrite.target import RTX, TENSORRT

TEXT = """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
g (float[2, 3, 3] x, bool c) => (float[2, 3, 3] y) {
    y = If (c) <
        then_branch = t () => (float[2, 3, 3] a) { a = com.microsoft.Inverse (x) },
        else_branch = e () => (float[2, 3, 3] b) { b = Neg (x) }
    >
}"""


@pytest.fixture
def model(tmp_path: Path) -> Model:
    return loaded(TEXT, tmp_path)


def branch(model: Model) -> list[str]:
    (node,) = (node for node in model.proto.graph.node if node.op_type == "If")
    (graph,) = (a.g for a in node.attribute if a.name == "then_branch")
    return [inner.op_type for inner in graph.node]


@pytest.mark.parametrize("positive", [True, False])
def test_the_expansion_takes_the_place_of_the_plugin(positive: bool, model: Model) -> None:
    result = rewrite(model, RTX)
    assert "MatrixInverse" not in branch(result.model) and plan(result).convertible
    assert any("in a branch of an If" in note for record in result.rewrites for note in record.notes)
    x = np.random.default_rng(1).normal(size=(2, 3, 3)).astype(np.float32) + 3 * np.eye(3, dtype=np.float32)
    feeds = {"x": x, "c": np.array(positive)}
    np.testing.assert_allclose(run(result.model, feeds)["y"], run(model, feeds)["y"], rtol=1e-4, atol=1e-5)


def test_tensorrt_keeps_the_plugin(model: Model) -> None:
    result = rewrite(model, TENSORRT)
    assert branch(result.model) == ["MatrixInverse"]
    assert "MatrixInverse" not in branch(expand(result.model))


def test_tensorrt_rtx_builds_it(model: Model, tmp_path: Path) -> None:
    assert engine_size(rewrite(model, RTX), tmp_path) > 0
