"""Nodes of foreign plugins: of a user's library, and TensorRT's own, also in place of ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper as oh

from tests.converter.models import save, value, written
from tests.converter.plugin.fixtures import library
from tests.converter.verify.judging import judged_graph
from trtsmith.converter.base.errors import ConversionError, UsageError
from trtsmith.converter.cli.main import main
from trtsmith.converter.convert.analysis import Analysis, AnalysisOptions, analyse
from trtsmith.converter.convert.foreign_nodes import target_of
from trtsmith.converter.convert.pipeline import ConvertOptions, convert
from trtsmith.converter.convert.plan import Route
from trtsmith.converter.engine.builder import flavour
from trtsmith.converter.model.load import load_model
from trtsmith.converter.rewrite.target import RTX, Target
from trtsmith.importers.fields import FieldValue

FIELDS: dict[str, Any] = {"repeats": 3, "weights": [1.0, 2.0]}


def repeated(
    folder: Path, op: str = "Repeat0", domain: str = "fixture", output: Any = (6, 3, 4), **fields: Any
) -> Path:
    nodes = [
        oh.make_node("Relu", ["x"], ["a"], name="relu"),
        oh.make_node(op, ["a"], ["b"], name="rep", domain=domain, **fields),
        oh.make_node("Neg", ["b"], ["y"], name="neg"),
    ]
    return save(folder / "m.onnx", nodes, [value("x", (2, 3, 4))], [value("y", output)])


def checked(path: Path, *libraries: str, target: Target = RTX) -> Analysis:
    plugins = tuple(library(name) for name in libraries)
    return analyse(load_model(path), AnalysisOptions(target=target, plugins=plugins))


def test_a_node_that_fits_its_creator(tmp_path: Path) -> None:
    plan = checked(repeated(tmp_path, **FIELDS), "good_v3").plan
    assert plan.convertible and plan.warnings == () and plan.plugins == ()
    (node,) = plan.foreign_nodes
    assert node.route is Route.PLUGIN and "fixture::Repeat0 version 1 of" in node.how
    (use,) = plan.foreign
    assert use.partial and use.fields == (
        FieldValue("repeats", "int32", (3,)),
        FieldValue("weights", "float32", (1.0, 2.0)),
    )


@pytest.mark.parametrize(
    ("options", "what", "fix"),
    [
        ({"repeat": 3, "weights": [1.0, 2.0]}, "unknown attribute 'repeat'", "did you mean 'repeats'?"),
        ({**FIELDS, "repeats": 2.0}, "attribute 'repeats' = 2.0 is FLOAT", "an INT or INTS attribute"),
        ({**FIELDS, "plugin_version": "7"}, "has no plugin (no namespace)::Repeat0 version 7", 'plugin_version="1"'),
        ({**FIELDS, "plugin_version": 1}, "attribute 'plugin_version' is not a string", 'plugin_version="1"'),
        ({**FIELDS, "domain": "other"}, "version 1", 'plugin_namespace="fixture"'),
        ({"op": "Repeat4"}, "and no plugin in ", "did you mean 'Repeat0', which"),
    ],
)  # fmt: skip
def test_a_node_that_does_not(options: dict[str, Any], what: str, fix: str, tmp_path: Path) -> None:
    (problem,) = checked(repeated(tmp_path, **options), "good_v3").problems
    assert what in problem.what and fix in problem.fix and "node 'rep'" in problem.where


def test_a_field_that_is_left_to_the_plugin(tmp_path: Path) -> None:
    plan = checked(repeated(tmp_path, repeats=3), "good_v3").plan
    assert plan.convertible and "field 'weights'" in plan.warnings[0]


def test_a_v2_plugin_is_for_tensorrt(tmp_path: Path) -> None:
    path = repeated(tmp_path, "RepeatDynamicExt0", **FIELDS)
    (problem,) = checked(path, "good_v2").problems
    assert "is not an IPluginV3 plugin" in problem.what
    assert checked(path, "good_v2", target=Target("tensorrt", (10, 16))).convertible


@pytest.mark.parametrize("target", [RTX, Target("tensorrt", (10, 16))])
def test_a_library_that_registers_by_itself_and_is_linked_with_no_tensorrt(
    target: Target, tmp_path: Path
) -> None:
    (problem,) = checked(repeated(tmp_path, **FIELDS), "static_v3", target=target).problems
    assert f"will not load into {target.title}" in problem.what and "linked with no TensorRT" in problem.what


@pytest.mark.parametrize(
    ("output", "built"), [((6, 3, 4), True), ((None, 3, 4), True), ((5, 3, 4), False), ((6, 12), False)]
)
def test_outputs_that_contradict_the_model(output: Any, built: bool, tmp_path: Path) -> None:
    """The library says what its outputs are, and nobody else: a wrong attribute shows in their shapes."""
    model, engine = repeated(tmp_path, output=output, **FIELDS), tmp_path / "m.plan"
    options = ConvertOptions(
        model, engine, flavour="tensorrt_rtx", plugins=(library("good_v3"),), verify=None
    )
    if built:
        assert convert(options, lambda text: None).bundle.engine.is_file()
        return
    with pytest.raises(ConversionError, match=r"output 'y' of the engine has the shape \[6, 3, 4\]"):
        convert(options, lambda text: None)
    assert not engine.exists() and not (tmp_path / "m.manifest.json").exists()


def stock(folder: Path, node: str) -> Path:
    return written(
        folder / "m.onnx", f"(float[2, 8, 4, 4] x) => (float[?, ?, ?, ?] y) {{ [n] y = {node} (x) }}"
    )


def test_plugins_that_tensorrt_brings(tmp_path: Path) -> None:
    path = stock(tmp_path, "DisentangledAttention_TRT <span = 512, factor = 1.0>")
    plan = checked(path, target=Target("tensorrt", (10, 16))).plan
    (node,) = plan.nodes
    assert plan.convertible and node.route is Route.STOCK and node.foreign
    assert node.how == "stock plugin DisentangledAttention_TRT version 1 of TensorRT 10.16"
    (use,) = plan.foreign
    assert (use.name, use.version, use.namespace) == ("DisentangledAttention_TRT", "1", "")


def test_what_tensorrt_or_tensorrt_rtx_does_not_bring(tmp_path: Path) -> None:
    path = stock(tmp_path, "TopkLastDim <type_id = 0, k = 1, is_largest = 1, axis = 3>")
    (problem,) = checked(path, target=RTX).problems
    assert "TensorRT-RTX comes without it" in problem.what and "--flavour tensorrt" in problem.fix
    (problem,) = checked(path, target=Target("tensorrt", (10, 16))).problems
    assert "TensorRT 10.16 does not bring the plugin" in problem.what
    assert "TensorRT 11.0" in problem.expected


def test_an_attribute_that_a_stock_plugin_has_not(tmp_path: Path) -> None:
    path = stock(tmp_path, "DecodeBbox3DPlugin <num_dir_bin = 2>")
    (problem,) = checked(path, target=Target("tensorrt", (10, 16))).problems
    assert "unknown attribute 'num_dir_bin'" in problem.what and "'num_dir_bins'" in problem.fix


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
    assert judged_graph(model, left, feeds).passed


def test_what_tensorrt_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert target_of("tensorrt").stock == frozenset()
    preferred = target_of("tensorrt", prefer_stock=True).stock
    assert preferred > STOCK and "ScatterND" not in preferred  # ONNX has one, which the parser would import
    monkeypatch.setattr(flavour, "installed_flavours", lambda: ())
    with pytest.raises(UsageError, match="TensorRT-RTX has no plugins of its own to prefer"):
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
