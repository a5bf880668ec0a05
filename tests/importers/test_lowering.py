"""The engine that lowers nodes, on aliases defined here: reading, casts, fragments, names, refusals."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import trtsmith.importers.lowering
from trtsmith.importers.builder import Value
from trtsmith.importers.lowering import ForeignNode, Lowered, lower
from trtsmith.importers.opdef import Alias, AliasedNode, Attr, Field, Kind, OpDef, Port, Refusal
from trtsmith.importers.registry import OPS, PROVIDER_DOMAIN, find_aliases, known_domains, normalise_domain

OP = replace(
    OPS[0],
    name="Sum",
    inputs=(Port("a", "T", None, ""), Port("index", "I", None, ""), Port("b", "T", None, "", optional=True)),
    outputs=(Port("output", "T", None, ""),),
    fields=(Field("k", Kind.INT, "", default=1),),
)
PLAIN = Alias("Theirs", ("theirs",), ("a", "index", "b?"), "tests", attributes=(Attr("k", Kind.INT, 1),))
NODE = ForeignNode("node", "Theirs", "theirs", {}, ("A", "I", "B"), ("Y",))


@pytest.fixture
def know(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes the engine know these aliases of OP and no others."""

    def use(*aliases: Alias, op: OpDef = OP) -> None:
        monkeypatch.setattr(
            trtsmith.importers.lowering,
            "find_aliases",
            lambda _domain, _name: tuple((op, s) for s in aliases),
        )

    return use


def done(node: ForeignNode, opset: int = 1) -> Lowered:
    result = lower(node, opset)
    assert isinstance(result, Lowered), result
    return result


def declined(node: ForeignNode, opset: int = 1) -> Refusal:
    result = lower(node, opset)
    assert isinstance(result, Refusal), result
    return result


def summary(nodes: Iterable[onnx.NodeProto]) -> list[tuple[str, list[str], list[str]]]:
    return [(n.op_type, list(n.input), list(n.output)) for n in nodes]


def test_nobodys_operator() -> None:
    assert lower(ForeignNode("n", "Nobody", "x", {}, (), ("y",)), 1) is None
    assert lower(ForeignNode("n", "Relu", "", {}, ("x",), ("y",)), 17) is None


def test_plain_node(know: Any) -> None:
    know(PLAIN)
    result = done(replace(NODE, attributes={"k": 5}))
    assert summary(result.nodes) == [("Sum", ["A", "I", "B"], ["Y"])]
    assert result.fields == {"k": 5}
    assert result.notes == ()


def test_a_field_may_be_called_as_what_a_node_has(know: Any) -> None:
    op = replace(OP, fields=(Field("name", Kind.STRING, "", default="x"), Field("inputs", Kind.INT, "")))
    attributes = (Attr("name", Kind.STRING), Attr("inputs", Kind.INT))
    know(replace(PLAIN, attributes=attributes), op=op)
    plugin = done(replace(NODE, attributes={"name": b"theirs", "inputs": 2})).nodes[0]
    assert plugin.name == "node/Sum" and list(plugin.input) == ["A", "I", "B"]
    found = {a.name: helper.get_attribute_value(a) for a in plugin.attribute}
    assert found["name"] == b"theirs" and found["inputs"] == 2


def test_plugin_attributes_of_the_foreign_node_are_not_its_own(know: Any) -> None:
    know(PLAIN)
    assert done(replace(NODE, attributes={"plugin_version": b"2", "plugin_namespace": b"x"})).fields == {
        "k": 1
    }


def test_optional_input_left_out(know: Any) -> None:
    know(PLAIN)
    for inputs in (("A", "I"), ("A", "I", ""), ("A", "I", "", "", "")):
        assert summary(done(replace(NODE, inputs=inputs)).nodes) == [("Sum", ["A", "I"], ["Y"])]


def test_ignored_attributes_are_neither_fields_nor_checked(know: Any) -> None:
    know(replace(PLAIN, attributes=(*PLAIN.attributes, Attr("im2col_step", Kind.INT, ignored=True))))
    for value in (64, b"x", [1, 2]):
        assert done(replace(NODE, attributes={"im2col_step": value})).fields == {"k": 1}


def test_nodes_without_a_name_do_not_collide(know: Any) -> None:
    know(replace(PLAIN, prologue="index = Identity (given)", inputs=("a", "given")))
    first = done(replace(NODE, name="", inputs=("A", "I")))
    second = done(replace(NODE, name="", inputs=("A", "I"), outputs=("Z",)))
    names = [n.name for n in (*first.nodes, *second.nodes)]
    values = [v for n in (*first.nodes, *second.nodes) for v in n.output]
    assert len(set(names)) == len(names) == 4
    assert len(set(values)) == len(values) == 4
    assert first.plugin_node in names


def test_plugin_node_keeps_the_nodes_name(know: Any) -> None:
    know(PLAIN)
    assert done(NODE).plugin_node == "node/Sum"


def test_prologue_and_epilogue_share_local_names(know: Any) -> None:
    know(
        replace(
            PLAIN,
            inputs=("x", "index"),
            outputs=("final",),
            prologue="a = Neg (x)\nb = Abs (a)",
            epilogue="final = Add (output, x)",
        )
    )
    nodes = done(replace(NODE, inputs=("X", "I"))).nodes
    assert summary(nodes) == [
        ("Neg", ["X"], ["Y/Sum/a"]),
        ("Abs", ["Y/Sum/a"], ["Y/Sum/b"]),
        ("Sum", ["Y/Sum/a", "I", "Y/Sum/b"], ["Y/Sum/output"]),
        ("Add", ["Y/Sum/output", "X"], ["Y"]),
    ]


def test_fragments_of_a_builder_read_names_and_keep_their_own_apart(know: Any) -> None:
    def before(node: AliasedNode) -> dict[str, Value]:
        g = node.builder()
        return {"a": g.Neg("x"), "b": g.Abs(g.Neg("x"))}

    def after(node: AliasedNode) -> dict[str, Value]:
        g = node.builder()
        return {"final": g.Neg(g.Neg("output") + "b")}

    know(replace(PLAIN, inputs=("x", "index"), outputs=("final",), prologue=before, epilogue=after))
    nodes = done(replace(NODE, inputs=("X", "I"))).nodes
    assert summary(nodes) == [
        ("Neg", ["X"], ["Y/Sum/a"]),
        ("Neg", ["X"], ["Y/Sum/Neg_2"]),
        ("Abs", ["Y/Sum/Neg_2"], ["Y/Sum/b"]),
        ("Sum", ["Y/Sum/a", "I", "Y/Sum/b"], ["Y/Sum/output"]),
        ("Neg", ["Y/Sum/output"], ["Y/Sum/after/Neg_1"]),
        ("Add", ["Y/Sum/after/Neg_1", "Y/Sum/b"], ["Y/Sum/after/Add_2"]),
        ("Neg", ["Y/Sum/after/Add_2"], ["Y"]),
    ]
    assert len({node.name for node in nodes}) == len(nodes)


def test_a_fragment_of_a_builder_that_reads_what_nothing_makes(know: Any) -> None:
    know(replace(PLAIN, epilogue=lambda node: {"output": node.builder().Neg("never_made")}))
    with pytest.raises(LookupError, match="reads 'never_made', which nothing makes"):
        lower(NODE, 1)


def test_fragments_may_depend_on_the_node(know: Any) -> None:
    know(replace(PLAIN, inputs=("a", "index"), prologue=lambda n: f"b = Cast <to = {n.attrs['k']}> (a)"))
    cast = done(replace(NODE, inputs=("A", "I"), attributes={"k": 10})).nodes[0]
    assert helper.get_attribute_value(cast.attribute[0]) == 10


def test_an_alias_that_forgets_a_port_is_a_bug_in_the_definition(know: Any) -> None:
    know(replace(PLAIN, inputs=("a",)))
    with pytest.raises(LookupError, match="no value to port index of Sum"):
        lower(replace(NODE, inputs=("A",)), 1)


def test_double_goes_through_single(know: Any) -> None:
    know(PLAIN)
    result = done(replace(NODE, dtypes={"A": "float64", "B": "float64", "I": "int64"}))
    assert summary(result.nodes) == [
        ("Cast", ["A"], ["Y/Sum/a_float32"]),
        ("Cast", ["B"], ["Y/Sum/b_float32"]),
        ("Sum", ["Y/Sum/a_float32", "I", "Y/Sum/b_float32"], ["Y_float32"]),
        ("Cast", ["Y_float32"], ["Y"]),
    ]
    assert result.notes == ("a cast from float64 to float32", "b cast from float64 to float32")


def test_double_before_a_prologue_is_cast_once_and_cast_back(know: Any) -> None:
    know(replace(PLAIN, inputs=("x", "index"), prologue="a = Neg (x)"))
    result = done(replace(NODE, inputs=("X", "I"), dtypes={"X": "float64"}))
    assert [n.op_type for n in result.nodes] == ["Cast", "Neg", "Sum", "Cast"]
    assert result.nodes[-1].output[0] == "Y"
    assert result.notes == ("x cast from float64 to float32",)


def test_later_inputs_follow_the_first_of_their_variable(know: Any) -> None:
    know(PLAIN)
    result = done(replace(NODE, dtypes={"A": "float16", "B": "float32", "I": "int32"}))
    assert result.notes == ("b cast from float32 to float16",)
    assert done(replace(NODE, dtypes={"B": "float32"})).notes == ()


@pytest.mark.parametrize(("value", "dtype"), [("A", "int8"), ("A", "bool"), ("I", "float32"), ("I", "uint8")])
def test_element_types_without_a_kernel(know: Any, value: str, dtype: str) -> None:
    know(PLAIN)
    refusal = declined(replace(NODE, dtypes={value: dtype}))
    assert f"is {dtype}" in refusal.reason
    assert "one of" in refusal.expected


def test_constants_are_attributes_fed_as_inputs(know: Any) -> None:
    know(replace(PLAIN, inputs=("a", "index"), attributes=(), constants=(Attr("k", Kind.INT),)))
    node = replace(NODE, inputs=("A", "I", "K"))
    for array in (np.array(4), np.array([4], np.int32), np.array([[4]], np.uint8)):
        assert done(replace(node, constant={"K": array}.get)).fields == {"k": 4}
    assert done(replace(node, constant={"K": np.array(True)}.get)).fields == {"k": 1}
    assert done(replace(node, inputs=("A", "I"), attributes={"k": 6})).fields == {"k": 6}
    assert "input 'k' is not a constant" in declined(node).reason
    assert "attribute 'k' is [0.5]" in declined(replace(node, constant={"K": np.array(0.5)}.get)).reason
    assert "attribute 'k' is [1, 2]" in declined(replace(node, constant={"K": np.array([1, 2])}.get)).reason
    assert "missing attribute 'k'" in declined(replace(node, inputs=("A", "I"))).reason


def test_first_meaning_that_holds_is_taken(know: Any) -> None:
    first = replace(PLAIN, when=lambda n: n.attrs["k"] == 1, source="first")
    second = replace(PLAIN, when=lambda n: n.attrs["k"] == 2, source="second")
    know(first, second)
    assert done(NODE).alias.source == "first"
    assert done(replace(NODE, attributes={"k": 2})).alias.source == "second"
    assert lower(replace(NODE, attributes={"k": 3}), 1) is None
    assert "'colour'" in declined(replace(NODE, attributes={"colour": 1})).reason


def test_a_meaning_that_does_not_fit_does_not_hide_the_next(know: Any) -> None:
    know(replace(PLAIN, attributes=()), PLAIN)
    assert done(replace(NODE, attributes={"k": 7})).fields == {"k": 7}


def test_guard_has_the_last_word(know: Any) -> None:
    no = Refusal("no", "yes", "do")
    know(replace(PLAIN, guard=lambda n: no if "b" in n.present else None))
    assert declined(NODE) == no
    assert done(replace(NODE, inputs=("A", "I"))).fields == {"k": 1}


def test_guard_sees_types_and_shapes_by_input_name(know: Any) -> None:
    seen = []
    know(replace(PLAIN, guard=lambda n: seen.append((dict(n.dtypes), dict(n.shapes), n.present))))
    done(replace(NODE, dtypes={"A": "float16", "other": "int8"}, shapes={"I": (3, None)}, inputs=("A", "I")))
    assert seen == [({"a": "float16"}, {"index": (3, None)}, frozenset({"a", "index"}))]


def test_fields_are_checked_before_anything_is_written(know: Any) -> None:
    know(PLAIN)
    assert "does not fit 32 bits" in declined(replace(NODE, attributes={"k": 2**40 + 5})).reason
    know(replace(PLAIN, fields=lambda n: {"k": 1, "j": 2}))
    assert "unknown field 'j'" in declined(NODE).reason


def test_opset_range(know: Any) -> None:
    know(replace(PLAIN, opsets=(3, 5)))
    assert done(NODE, 3).fields == done(NODE, 5).fields
    for opset in (2, 6):
        refusal = declined(NODE, opset)
        assert refusal.reason == f"theirs::Theirs of opset {opset}"
        assert refusal.expected == "opset 3 to 5"
    assert done(replace(NODE, domain=PROVIDER_DOMAIN), 1).fields == {"k": 1}


def test_domains() -> None:
    assert normalise_domain(None) == normalise_domain("ai.onnx") == normalise_domain("") == ""
    for domain in ("mmcv", "mmdeploy", "", "trt.plugins"):
        assert find_aliases(domain, "MMCVDeformConv2d"), domain
    assert not find_aliases("torchvision", "MMCVDeformConv2d")
    assert find_aliases("ai.onnx", "DeformConv") == find_aliases("", "DeformConv") != ()
    assert not find_aliases("", "Conv")
    assert {"mmcv", "mmdeploy", "torchvision", "trtsmith"} <= known_domains()
    assert "" not in known_domains()
