"""`Plugin` nodes with attributes as JSON, as tensorRT_Pro's exporters write them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper

from trtsmith.converter.base.errors import InvalidModelError
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model_bytes import ModelBytes
from trtsmith.converter.rewrite.rewrite import rewrite


def written(folder: Path, node: onnx.NodeProto, *weights: tuple[str, np.ndarray]) -> Path:
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(n, T.FLOAT, (1, c, 6, 7)) for n, c in (("x", 5), ("packed", 27))],
        [helper.make_tensor_value_info("y", T.FLOAT, None)],
        [onnx.numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights],
    )
    path = folder / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)]), path)
    return path


def plugin(name: str, **attributes: object) -> onnx.NodeProto:
    node: onnx.NodeProto = helper.make_node("Plugin", ["x"], ["y"], name="n")
    node.attribute.extend(
        helper.make_attribute(key, value) for key, value in {"name": name, **attributes}.items()
    )
    return node


def test_becomes_the_plugin_that_it_names(tmp_path: Path) -> None:
    given = {"size": 555, "shape": [6, 7, 8], "eps": 3e-2, "module": "abc", "scales": [1, 2.5], "flip": True}
    node = plugin("Swish", info=json.dumps(given), version="2", namespace="mine", mode="constant")
    (found,) = load_model(written(tmp_path, node)).proto.graph.node
    values = {a.name: helper.get_attribute_value(a) for a in found.attribute}
    assert (found.op_type, found.domain, list(found.input)) == ("Swish", "", ["x"])
    assert values.pop("eps") == pytest.approx(3e-2)
    assert values == {
        "size": 555, "shape": [6, 7, 8], "module": b"abc", "scales": [1, 2.5], "flip": 1,
        "plugin_version": b"2", "plugin_namespace": b"mine", "mode": b"constant",
    }  # fmt: skip


@pytest.mark.parametrize("info", [{"info": ""}, {}, {"info": "{}"}])
def test_a_plugin_of_no_attributes_converts(tmp_path: Path, info: dict[str, str]) -> None:
    node = plugin("DCNv2", **info)
    node.input[:] = ["x", "packed", "w", "b"]
    path = written(tmp_path, node, ("w", np.ones((4, 5, 3, 3))), ("b", np.ones(4)))
    result = rewrite(load_model(path))
    assert "ModulatedDeformableConvolution" in [n.op_type for n in result.model.proto.graph.node]


@pytest.mark.parametrize(
    ("info", "word"),
    [
        ("string attribute", "Expecting value"),
        ('{"a": 1', "Expecting ',' delimiter"),
        ("[1]", "is a list"),
        ('{"a": {"b": 1}}', "is a dict"),
        ('{"a": null}', "None"),
        ('{"a": []}', "empty"),
        ('{"a": 1180591620717411303424}', "range"),
        ('{"a": "\\ud800"}', "surrogates"),
        ("[" * 100_000, "recursion"),
    ],
)
def test_attributes_that_cannot_be_read(tmp_path: Path, info: str, word: str) -> None:
    with pytest.raises(InvalidModelError) as caught:
        load_model(written(tmp_path, plugin("MReLU", info=info)))
    (problem,) = caught.value.problems
    assert word in problem.what
    assert "'MReLU'" in problem.what
    assert "node 'n' (Plugin)" in problem.where
    assert problem.expected
    assert "json.dumps" in problem.fix


def test_another_operator_of_that_name_stays(tmp_path: Path) -> None:
    node = helper.make_node("Plugin", ["x"], ["y"], name="n", domain="mine", size=3)
    (found,) = load_model(written(tmp_path, node)).proto.graph.node
    assert (found.op_type, found.attribute[0].i) == ("Plugin", 3)


HEAD = '<ir_version: 8, opset_import: ["" : 17, "mine" : 1]>'


def named(name: str, info: str = "{}", domain: str = "") -> str:
    """A node Plugin from x to y, in onnx.parser's syntax."""
    return (
        f"y = {domain}{'.' * bool(domain)}Plugin <name = {json.dumps(name)}, info = {json.dumps(info)}> (x)"
    )


def graph_of(body: str, functions: str = "") -> bytes:
    text = f"{HEAD} g (float[4] x, bool c) => (y) {{ {body} }} {functions}"
    return bytes(onnx.parser.parse_model(text).SerializeToString())


def function(name: str, body: str) -> str:
    return f'<domain: "mine", opset_import: ["" : 17, "mine" : 1]> {name} (x) => (y) {{ {body} }}'


IN_A_BRANCH = "y = If (c) <then_branch = t () => (y) {{ {} }}, else_branch = e () => (x) {{}}>"


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (graph_of(named("Split", '{"num_outputs": 1000000000}')), "names the plugin 'Split'"),
        (graph_of(named("Cast", '{"to": 77}')), "names the plugin 'Cast'"),
        (graph_of(IN_A_BRANCH.format(named("Cast", '{"to": 77}'))), "names the plugin 'Cast'"),
        (graph_of("y = mine.f (x)", function("f", named("f", domain="mine"))), "names the plugin 'f'"),
        (
            graph_of("y = mine.f (x)", function("f", named("g", domain="mine")) + function("g", "y = Abs (x)")),
            "names the plugin 'g'",
        ),
        # What a node becomes is checked like any other.
        (graph_of(named("MReLU", '{"": 1}')), "An attribute has no name"),
        (graph_of(named("MReLU", '{"plugin_version": "2"}').replace("<", '<version = "1", ')), "given twice"),
        (graph_of(named("BiasGelu").replace("Plugin", "com.microsoft.Plugin")), "BiasGelu"),
    ],
)  # fmt: skip
def test_a_node_plugin_is_named_before_it_is_checked(model: bytes, said: str) -> None:
    with pytest.raises(InvalidModelError, match=said):
        load_model(ModelBytes(model))


def test_nodes_in_branches_of_functions_are_named() -> None:
    called = function("f", "c = Constant <value = bool {1}> () " + IN_A_BRANCH.format(named("MReLU")))
    (found,) = load_model(ModelBytes(graph_of("y = mine.f (x)", called))).proto.functions
    assert found.node[1].attribute[0].g.node[0].op_type == "MReLU"


def test_a_function_called_plugin_is_called() -> None:
    called = function("Plugin", "y = Abs (x)")
    model = load_model(ModelBytes(graph_of(named("MReLU", domain="mine"), called)))
    assert model.proto.graph.node[0].op_type == "Plugin"
