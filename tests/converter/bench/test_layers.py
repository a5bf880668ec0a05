"""From fake reports of TensorRT's profiler and inspector to shares by layer, type and plugin."""

from __future__ import annotations

import json

import onnx
import pytest

from trtsmith.converter.bench.layers import EngineLayer, LayerNode, nodes_of, parse_inspector, profile

NODES = {
    "conv1": LayerNode("Conv", False),
    "relu1": LayerNode("Relu", False),
    "attend": LayerNode("MultiscaleDeformableAttention", True),
    "/head/MatMul": LayerNode("MatMul", False),
}


def test_shares_are_of_the_medians_and_sum_to_one() -> None:
    runs = [
        {"conv1 + relu1": 1.0, "attend": 5.0, "/head/MatMul": 2.0},
        {"conv1 + relu1": 3.0, "attend": 6.0, "/head/MatMul": 2.0},
        {"conv1 + relu1": 2.0, "attend": 90.0, "/head/MatMul": 2.0},
    ]
    found = profile(runs, [], NODES)
    assert found["sum_ms"] == 10.0 and found["inferences"] == 3
    assert [(row["layer"], row["ms"], row["share"]) for row in found["layers"]] == [
        ("attend", 6.0, 0.6),
        ("conv1 + relu1", 2.0, 0.2),
        ("/head/MatMul", 2.0, 0.2),
    ]
    assert {row["type"]: row["share"] for row in found["by_type"]} == {
        "MultiscaleDeformableAttention": 0.6,
        "Conv+Relu": 0.2,
        "MatMul": 0.2,
    }
    assert found["by_plugin"] == [
        {"plugin": "MultiscaleDeformableAttention", "layers": 1, "ms": 6.0, "share": 0.6}
    ]


@pytest.mark.parametrize(
    ("name", "nodes"),
    [
        ("conv1", ["conv1"]),
        ("conv1 + relu1", ["conv1", "relu1"]),
        ("PWN(PWN(relu1), conv1)", ["relu1", "conv1"]),
        ("{ForeignNode[conv1.../head/MatMul]}", ["conv1", "/head/MatMul"]),
        ("Reformatting CopyNode for Input Tensor 0 to conv1", []),
        ("conv11", []),
    ],
)
def test_fused_names_are_taken_apart(name: str, nodes: list[str]) -> None:
    assert profile([{name: 1.0}], [], NODES)["layers"][0]["nodes"] == nodes


def test_the_inspector_knows_more_than_names() -> None:
    metadata = "[ONNX Layer: conv1]\x1e[ONNX Layer: relu1]\x1e[ONNX Layer: conv1]"
    fused = {"Name": "__myl_ConvRelu_0", "LayerType": "kgen", "Metadata": metadata}
    plugin = {"Name": "p", "LayerType": "PluginV3"}
    document = {"Layers": [fused, plugin, "plain"], "Bindings": ["x"]}
    layers = parse_inspector(json.dumps(document))
    assert layers == [
        EngineLayer("__myl_ConvRelu_0", "kgen", ("conv1", "relu1")),
        EngineLayer("p", "PluginV3"),
        EngineLayer("plain"),
    ]
    found = profile([{"__myl_ConvRelu_0": 3.0, "p": 1.0, "plain": 0.0}], layers, NODES)
    assert [row["type"] for row in found["layers"]] == ["Conv+Relu", "PluginV3", "unknown"]
    assert found["by_plugin"] == [{"plugin": "plugin", "layers": 1, "ms": 1.0, "share": 0.25}]
    # without the model's nodes, TensorRT's own type stands for them
    assert profile([{"__myl_ConvRelu_0": 3.0}], layers, {})["layers"][0]["type"] == "kgen"


@pytest.mark.parametrize("text", ["", "no JSON", "[]", '{"Layers": 3}', '{"Layers": [1, null]}'])
def test_an_inspector_that_tells_nothing_is_no_error(text: str) -> None:
    assert parse_inspector(text) == []


def test_a_profile_of_zeros_divides_by_nothing() -> None:
    found = profile([{"conv1": 0.0}], [], NODES)
    assert found["layers"][0]["share"] == 0.0 and found["sum_ms"] == 0.0


def test_nodes_of_subgraphs_and_nodes_without_names_are_found() -> None:
    text = """<ir_version: 9, opset_import: ["" : 17, "trtsmith" : 1, "x" : 1]> m (bool c, float[1] x) => (float[1] w) {
        [if] y = If (c) <then_branch = g () => (float[1] e) { [exp] e = Exp (x) },
                         else_branch = h () => (float[1] l) { l = Log (x) }>
        z = trtsmith.MatrixInverse (y)
        [theirs] w = x.TheirOp (z) }"""
    model = onnx.parser.parse_model(text)
    several = onnx.parser.parse_graph("s () => (float[1] s) { [sin] s = Sin (x) }")
    model.graph.node[-1].attribute.append(onnx.helper.make_attribute("several", [several]))
    assert nodes_of(model, ["TheirOp"]) == {
        "if": LayerNode("If", False),
        "exp": LayerNode("Exp", False),
        "node_of_l": LayerNode("Log", False),
        "node_of_z": LayerNode("MatrixInverse", True),
        "theirs": LayerNode("TheirOp", True),
        "sin": LayerNode("Sin", False),
    }
