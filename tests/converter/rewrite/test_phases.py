"""No rule takes the result of the last phase, in every precision."""

from pathlib import Path

import onnx
import pytest

from onnxcoverage.examples import example_model
from tests.converter.rewrite.precision.networks import network, normal
from tests.rule_examples import examples_of
from tests.rule_examples.example import Example
from trtsmith.converter.convert.precision import in_precision
from trtsmith.converter.convert.precision_request import PrecisionRequest
from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.engine.rule_engine import apply_rules
from trtsmith.converter.rewrite.rewrite import rewrite
from trtsmith.converter.rewrite.rules import RULES
from trtsmith.converter.rewrite.target import RTX, TENSORRT, Target

TWO_MEANS = """(float[1,4,6,6] x) => (float[1,4,6,6] y) {
    [one] a = Conv <pads = [1,1,1,1]> (x, k)
    [two] b = Conv <pads = [1,1,1,1]> (x, k)
    [mean] m = Mean (a, b)
    [last] y = Conv <pads = [1,1,1,1]> (m, k)
}"""

EXAMPLES = [pytest.param(rule, e, id=f"{rule.name}-{e.name}") for rule in RULES for e in examples_of(rule)]


def left_over(model: Model, target: Target) -> list[tuple[str, str]]:
    """What rules of the target would still do."""
    rules = [rule for rule in RULES if rule.concerns(target)]
    return [(record.node, record.pass_name) for record in apply_rules(Graph(model), rules, target).rewrites]


@pytest.mark.parametrize("flag", ["fp16", "bf16"])
def test_a_mean_that_the_precision_made_is_seen_by_the_rules(flag: str, tmp_path: Path) -> None:
    model = network(tmp_path, TWO_MEANS, {"k": normal(4, 4, 3, 3)})
    result = in_precision(rewrite(model, RTX), PrecisionRequest(flag))
    types = {v.name: v.type.tensor_type.elem_type for v in result.model.proto.graph.value_info}
    convolutions = [node for node in result.model.proto.graph.node if node.op_type == "Conv"]
    halves = {onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16}
    assert all(types.get(node.input[0], onnx.TensorProto.FLOAT) in halves for node in convolutions)
    assert "Mean" not in {node.op_type for node in result.model.proto.graph.node}
    (total,) = (node for node in result.model.proto.graph.node if node.op_type == "Sum")
    assert types[total.output[0]] == onnx.TensorProto.FLOAT
    assert [record.pass_name for record in result.rewrites] == ["half-means"]


@pytest.mark.parametrize(("rule", "example"), EXAMPLES)
def test_no_rule_fires_on_the_final_graph(rule: NodeRule, example: Example, tmp_path: Path) -> None:
    model = example_model(example, tmp_path)
    flags = (
        ("fp16", "bf16", "fp32") if "float16" in example.text else ("fp16", "bf16")
    )  # or fp32 changes nothing
    for target in (RTX, TENSORRT):
        plain = rewrite(model, target)
        assert left_over(plain.model, target) == []
        if plain.declined:
            continue
        for flag in flags:
            result = in_precision(plain, PrecisionRequest(flag))
            assert left_over(result.model, target) == [], flag
