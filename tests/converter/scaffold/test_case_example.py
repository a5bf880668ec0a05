"""An example model of every operator's first case: the node is taken, with the case's fields."""

from __future__ import annotations

import onnx
import pytest

import trtsmith
from trtsmith.converter.scaffold.case_example import case_example
from trtsmith.importers.fields import fields_of_node
from trtsmith.importers.opdef import PLUGIN_NAMESPACE, OpDef
from trtsmith.importers.registry import OPS


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_the_node_becomes_the_plugin_with_the_fields_of_the_case(op: OpDef) -> None:
    case = op.cases[0]
    model = onnx.load_from_string(case_example(op, case))
    (node,) = model.graph.node
    if not op.onnx:
        assert trtsmith.check(model).convertible
    graph = (
        trtsmith.rewrite(model, flavour="tensorrt_rtx").rewritten.model.proto.graph
        if node.domain != PLUGIN_NAMESPACE
        else model.graph
    )
    made = {n.op_type: n for n in graph.node}
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in made[op.name].attribute}
    for field in op.fields:
        if isinstance(attributes[field.name], bytes):
            attributes[field.name] = attributes[field.name].decode()
    assert fields_of_node(op, attributes) == dict(case.fields)


def test_most_are_written_as_models_write_them() -> None:
    domains = [onnx.load_from_string(case_example(op, op.cases[0])).graph.node[0].domain for op in OPS]
    assert sum(domain != PLUGIN_NAMESPACE for domain in domains) > 5
