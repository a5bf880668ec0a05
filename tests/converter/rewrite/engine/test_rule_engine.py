"""The rule engine's promises to rules and users, and its cost on models without work."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from tests.converter.rewrite.engine.ruled import ruled
from tests.converter.rewrite.running import loaded, op_types
from trtsmith.converter.base.errors import ConversionError, UsageError
from trtsmith.converter.convert.plan import Route, plan
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Operand, Writer
from trtsmith.converter.rewrite.rewrite import rewrite

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'


def rule(op_type: str, body: Callable[[Writer], Operand], **more: str) -> NodeRule:
    def rewrite(node: NodeView) -> Replacement:
        w = Writer(node)
        return Replacement(w.finish(body(w)), f"{op_type} done", **more)

    return NodeRule(f"no-{op_type.lower()}", "", (op_type,), rewrite)


CHAIN = f"{HEAD} g (float[2, 3] x) => (float[2, 3] y) {{ a = Neg (x)  b = Abs (a)  y = Neg (b) }}"


def test_a_model_in_which_no_rule_finds_anything_is_the_same_object(tmp_path: Path) -> None:
    model = loaded(CHAIN, tmp_path)
    never = NodeRule("never", "", ("Neg",), lambda node: None)
    assert ruled(model, (never,)).model is model
    assert ruled(model, (rule("Relu", lambda w: w.Relu(w.x[0])),)).model is model


def test_nodes_of_one_rule_are_taken_by_another_and_told_as_one_record(tmp_path: Path) -> None:
    model = loaded(CHAIN, tmp_path)
    first = rule("Neg", lambda w: w.Sub(0.0, w.x[0]), numerics="of a kind")
    second = rule("Sub", lambda w: w.Add(w.x[0], w.Abs(w.Mul(w.x[1], w.x[1]))))
    result = ruled(model, (second, first))
    assert op_types(result.model).count("Neg") == op_types(result.model).count("Sub") == 0
    assert [(r.op_type, r.pass_name, r.what) for r in result.rewrites] == [
        ("Neg", "no-neg, no-sub", "Neg done; then Sub done")
    ] * 2
    assert all(r.numerics == ("of a kind",) for r in result.rewrites)
    assert {name for r in result.rewrites for name in r.made} < {
        n.name for n in result.model.proto.graph.node
    }
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert run(result.model, {"x": x})["y"].shape == (2, 3)


def test_a_rule_that_loops_is_named(tmp_path: Path) -> None:
    looping = rule("Neg", lambda w: w.Identity(w.Neg(w.x[0])))
    with pytest.raises(ConversionError, match="no-neg"):
        ruled(loaded(CHAIN, tmp_path), (looping,))


def test_a_node_that_a_rule_cannot_read_is_refused_and_the_others_are_not(tmp_path: Path) -> None:
    def reads_too_much(node: NodeView) -> Replacement | None:
        raise IndexError("of a list")

    rules = NodeRule("reads", "nothing", ("Neg",), reads_too_much), rule("Abs", lambda w: w.Relu(w.x[0]))
    result = ruled(loaded(CHAIN, tmp_path), rules)
    assert [declined.pass_name for declined in result.declined] == ["reads"] * 2
    assert "cannot read it (IndexError: of a list)" in result.declined[0].refusal.reason
    assert [record.op_type for record in result.rewrites] == ["Abs"]


@pytest.mark.parametrize(
    ("op_types", "fault"), [([], "does not make the output"), (["Abs", "Relu"], "twice")]
)
def test_a_rule_that_breaks_its_promise_is_named(op_types: list[str], fault: str, tmp_path: Path) -> None:
    def breaks(node: NodeView) -> Replacement:
        return Replacement([helper.make_node(kind, node.inputs, node.outputs) for kind in op_types], "")

    with pytest.raises(ConversionError, match=f"no-neg.*{fault}"):
        ruled(loaded(CHAIN, tmp_path), (NodeRule("no-neg", "", ("Neg",), breaks),))


def test_branches_are_rewritten_and_see_outer_constants(tmp_path: Path) -> None:
    text = f"""{HEAD} g (bool c, float[2] x) => (float[2] y)
        <float[2] w = {{1, 2}}> {{
            y = If (c) <
                then_branch = a () => (float[2] p) {{ p = Add (x, w) }},
                else_branch = b () => (float[2] q) {{ q = Sub (x, w) }}
            >
        }}"""
    seen = []

    def look(node: NodeView) -> Replacement:
        value = node.constant(1)
        assert value is not None
        seen.append((value.tolist(), node.shape(0), node.dtype(0), node.used(0)))
        w = Writer(node)
        return Replacement(w.finish(w.Mul(w.x[0], value)), "scaled")

    result = ruled(loaded(text, tmp_path), (NodeRule("scale", "", ("Add", "Sub"), look),))
    assert seen == [([1.0, 2.0], (2,), "float32", True)] * 2
    x = np.array([3, 4], np.float32)
    for condition in (True, False):
        assert run(result.model, {"c": np.array(condition), "x": x})["y"].tolist() == [3, 8]


def test_what_only_the_replaced_node_read_is_removed(tmp_path: Path) -> None:
    text = f"""{HEAD} g (float[2] x) => (float[2] y)
        <float[2] only = {{1, 2}}, float[2] both = {{3, 4}}> {{
            a = Abs (only)  b = Add (x, both)  c = Exp (a)  y = Sum (b, c, both)
        }}"""

    result = ruled(loaded(text, tmp_path), (rule("Sum", lambda w: w.Add(w.x[0], w.x[2])),))
    assert op_types(result.model) == ["Add", "Add"]
    assert [t.name for t in result.model.proto.graph.initializer] == ["both"]


def test_a_refusal_stands_unless_another_rule_takes_the_node(tmp_path: Path) -> None:
    refuse = NodeRule("refuse", "", ("Neg",), lambda node: Refusal("a reason", "another", "an edit"))
    result = ruled(loaded(CHAIN, tmp_path), (refuse,))
    assert [d.refusal.reason for d in result.declined] == ["a reason"] * 2
    taken = ruled(loaded(CHAIN, tmp_path), (refuse, rule("Neg", lambda w: w.Abs(w.x[0]))))
    assert taken.declined == () and len(taken.rewrites) == 2


def test_the_plan_shows_one_rewritten_node_for_one_of_the_model(tmp_path: Path) -> None:
    text = """<ir_version: 9, opset_import: ["" : 20]> g (float[5, 6] x) => (float[3, 8] y)
        { size = Constant <value = int64[2] {3, 8}> ()  a = Neg (x)  y = CenterCropPad (a, size) }"""
    result = rewrite(loaded(text, tmp_path))
    planned = plan(result)
    assert planned.convertible
    routes = [(n.op_type, n.route) for n in planned.nodes if n.op_type != "Constant"]
    assert sorted(routes, key=str) == [("CenterCropPad", Route.REWRITTEN), ("Neg", Route.NATIVE)]


def test_frozen_inputs_are_constants_and_are_told(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 18]> g (float[2, 3] x, int64[1] axes) => (float[2, 1] y)
        { y = ReduceMax (x, axes) }"""
    model = loaded(text, tmp_path)
    (declined,) = rewrite(model).declined
    assert "--freeze 'axes=[0]'" in declined.refusal.fix
    result = rewrite(model, freeze={"axes": np.array([1])})
    assert [v.name for v in result.model.proto.graph.input] == ["x"]
    assert plan(result).convertible and len(result.warnings()) == 1
    for wrong in ({"axis": np.array([1])}, {"axes": np.array([1.0])}, {"axes": np.array([1, 0])}):
        with pytest.raises(UsageError):
            rewrite(model, freeze=wrong)


BRANCHES = f"""{HEAD} g (float[2] x) => (float[2] y)
    <bool c = {{1}}> {{
        y = If (c) <
            then_branch = a () => (float[2] p) {{ n = Neg (x)  p = Abs (n) }},
            else_branch = b () => (float[2] q) {{ n = Neg (x)  q = Nobody (n) }}
        >
    }}"""


def test_the_branch_that_a_constant_rules_out_is_neither_rewritten_nor_planned(tmp_path: Path) -> None:
    model = loaded(BRANCHES, tmp_path)
    result = ruled(model, (rule("Neg", lambda w: w.Sqrt(w.Mul(w.x[0], w.x[0]))),))
    (node,) = result.model.proto.graph.node
    branches = {a.name: [n.op_type for n in a.g.node] for a in node.attribute}
    assert branches == {"then_branch": ["Mul", "Sqrt", "Abs"], "else_branch": ["Neg", "Nobody"]}
    assert len(result.rewrites) == 1
    assert plan(rewrite(model)).convertible


def test_a_fix_names_the_inputs_of_the_model(tmp_path: Path) -> None:
    text = f"""{HEAD} g (float[2, 3] x, int32[2] first, int64 second) => (float[2, 3] y)
        <int64[1] m = {{-1}}> {{
            a = Cast <to = 7> (first)  b = Reshape (second, m)  c = Concat <axis = 0> (a, b)  y = Sum (x, c)
        }}"""
    refuse = NodeRule(
        "refuse", "", ("Sum",), lambda node: Refusal("r", "e", f"freeze it: --freeze {node.input(1)}=1")
    )
    (declined,) = ruled(loaded(text, tmp_path), (refuse,)).declined
    expected = "freeze it: --freeze 'first=[0,0]' --freeze second=0   (with your own value)"
    assert declined.refusal.fix == expected
    data = text.replace("Concat <axis = 0> (a, b)", "NonZero (x)")
    (declined,) = ruled(loaded(data, tmp_path), (refuse,)).declined
    assert declined.refusal.fix.startswith("make 'c' a constant where the model is exported"), (
        "--freeze takes no inner value"
    )
    itself = text.replace("Sum (x, c)", "Sum (c, x)")
    (declined,) = ruled(loaded(itself, tmp_path), (refuse,)).declined
    assert declined.refusal.fix == "freeze it: --freeze x=1"


def test_reading_what_nothing_makes_is_the_rules_fault(tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="'no-neg' on Neg reads 'gone'"):
        ruled(loaded(CHAIN, tmp_path), (rule("Neg", lambda w: w.Abs("gone")),))


def test_a_function_body_that_onnx_breaks_off_is_none(tmp_path: Path) -> None:
    """Attention of three dimensions without numbers of heads: onnx's builder of its body ends halfway, and says nothing."""
    model = loaded(
        """<ir_version: 11, opset_import: ["" : 23]>
        g (float[2, 4, 24] q, float[2, 6, 24] k, float[2, 6, 30] v, optional(float[4, 6]) m) => (float[2, 4, 30] y)
        { y = Attention (q, k, v, m) }""",
        tmp_path,
    )
    (node,) = plan(rewrite(model)).nodes
    assert node.route is Route.UNSUPPORTED


def test_strings_are_no_numbers_of_a_constant(tmp_path: Path) -> None:
    seen = []
    text = f'{HEAD} g (float[2, 3] x) => (float[2, 3] y) <string[1] s = {{"text"}}> {{ y = Add (x, s) }}'
    ruled(
        loaded(text, tmp_path), (NodeRule("look", "", ("Add",), lambda node: seen.append(node.constant(1))),)
    )
    assert seen == [None]


@pytest.mark.parametrize(
    ("opset", "body", "said"),
    [
        (2, "float[2] x) => (float[2] y) { y = BitCast <to = [1, 2]> (x) }", "cannot read it (TypeError"),
        (
            14,
            'float[2, 2] x) => (float[2, 2] y) <string[1, 1] s = {"text"}> { y = Trilu (s) }',
            "cannot read it",
        ),
        (
            26,
            "int32[2, 3] x) => (int32[2, 3] y) <int64[0] a = {}> { y = CumProd (x, a) }",
            "has not one number",
        ),
        (
            6,
            "uint8[1, 1, 4, 4] x) => (uint8[1, 1, 3, 3] y) <float s = {0.5}, uint8 z = {0}> "
            "{ y = com.microsoft.QLinearAveragePool <kernel_shape = [2, 2], count_include_pad = 1> (x, s, z, s, z) }",
            "needs opset 7: AveragePool of opset 6",
        ),
    ],
)
def test_a_node_that_no_rule_can_read_is_refused_by_name(
    opset: int, body: str, said: str, tmp_path: Path
) -> None:
    model = loaded(f'<ir_version: 11, opset_import: ["" : {opset}, "com.microsoft" : 1]> g ({body}', tmp_path)
    assert any(said in declined.refusal.reason for declined in rewrite(model).declined)
