"""Plugins that TensorRT brings, in the place of ours."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.converter.models import written
from trtsmith.converter.cli.main import main
from trtsmith.converter.convert.analysis import Analysis, AnalysisOptions, analyse
from trtsmith.converter.convert.foreign_nodes import target_of
from trtsmith.converter.convert.plan import Route
from trtsmith.converter.engine.build import flavour
from trtsmith.converter.model.errors import UsageError
from trtsmith.converter.model.load import load_model
from trtsmith.converter.rewrite.target import Target
from trtsmith.converter.verify.graphs import verify_graphs

STOCK = frozenset({"EfficientNMS_TRT", "GroupNormalizationPlugin"})


def detections(folder: Path) -> Path:
    """A detector's end as exporters for TensorRT write it."""
    text = """(float[1, 6, 4] boxes, float[1, 6, 3] scores) => (float[] kept, float[] best, int32[] num, int32[] classes) {
        [nms] num, kept, best, classes = EfficientNMS_TRT <score_threshold = 0.1, iou_threshold = 0.5, max_output_boxes = 4,
            background_class = -1, score_activation = 0, class_agnostic = 0, box_coding = 0> (boxes, scores) }"""
    return written(folder / "m.onnx", text)


def analysed(path: Path, target: Target) -> Analysis:
    return analyse(load_model(path), AnalysisOptions(target=target))


def test_ours_takes_the_place_of_a_stock_plugin_unless_it_is_preferred(tmp_path: Path) -> None:
    path = detections(tmp_path)
    ours = analysed(path, Target("tensorrt", (10, 16))).plan
    assert [use.name for use in ours.plugins] == ["DetectionSelection"] and ours.foreign == ()
    stock = analysed(path, Target("tensorrt", (10, 16), stock=STOCK)).plan
    assert stock.convertible and stock.plugins == () and stock.routes() == {"stock plugin": 1}
    assert [(use.name, use.namespace) for use in stock.foreign] == [("EfficientNMS_TRT", "")]
    assert {f.name: f.values for f in stock.foreign[0].fields}["max_output_boxes"] == (4,)


def test_rules_leave_nodes_to_a_stock_plugin_that_is_preferred(tmp_path: Path) -> None:
    text = """(float[1, 4, 8] x, float[4] s, float[4] b) => (float[1, 4, 8] y) {
        [g] y = GroupNormalizationPlugin <eps = 0.00001, num_groups = 2> (x, s, b) }"""
    written(tmp_path / "g.onnx", text)
    ours = analysed(tmp_path / "g.onnx", Target("tensorrt", (10, 16))).plan
    assert Route.STOCK.value not in ours.routes() and ours.convertible
    stock = analysed(tmp_path / "g.onnx", Target("tensorrt", (10, 16), stock=STOCK)).plan
    assert stock.routes() == {"stock plugin": 1}


def test_the_graph_with_a_stock_plugin_is_compared_by_our_definition(tmp_path: Path) -> None:
    model = load_model(detections(tmp_path))
    random = np.random.default_rng(0)
    feeds = {
        "boxes": np.sort(random.random((1, 6, 4), dtype=np.float32)),
        "scores": random.random((1, 6, 3), dtype=np.float32),
    }
    left = analysed(tmp_path / "m.onnx", Target("tensorrt", (10, 16), stock=STOCK)).rewritten.model
    assert [node.op_type for node in left.proto.graph.node] == ["EfficientNMS_TRT"]
    assert verify_graphs(model, left, feeds, "random").passed


def test_what_tensorrt_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert target_of("tensorrt").stock == frozenset()
    preferred = target_of("tensorrt", prefer_stock=True).stock
    assert preferred > STOCK and "ScatterND" not in preferred  # ONNX has one, which the parser would import
    monkeypatch.setattr(flavour, "installed_flavours", lambda: ())
    with pytest.raises(UsageError, match="TensorRT-RTX brings no plugins that could be preferred"):
        target_of("tensorrt_rtx", prefer_stock=True)


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(detections(tmp_path))

    assert main(["check", path, "--flavour", "tensorrt", "--prefer-stock"]) == 0
    assert "stock plugin EfficientNMS_TRT version 1 of TensorRT" in capsys.readouterr().out
    assert main(["check", path, "--flavour", "tensorrt_rtx", "--prefer-stock"]) == 2
    assert "--prefer-stock" in capsys.readouterr().err
    assert main(["ops", "--stock"]) == 0
    shown = capsys.readouterr().out
    assert "EfficientNMS_TRT" in shown and "TensorRT 8.6 on" in shown and "DetectionSelection" in shown
    assert main(["ops", "--stock", "--json"]) == 0
    assert '"ours": "standard operators"' in capsys.readouterr().out
