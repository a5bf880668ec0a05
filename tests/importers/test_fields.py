"""Fields of every kind: strict checks, both renderings, and valid attributes of nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from onnx import helper

from trtsmith.importers.fields import (
    FieldValue,
    check_fields,
    fields_of_node,
    plugin_attributes,
    plugin_fields,
    read_attribute,
)
from trtsmith.importers.opdef import Attr, Field, Kind
from trtsmith.importers.registry import OPS

OP = replace(
    OPS[0],
    name="Everything",
    fields=(
        Field("mode", Kind.STRING, "", allowed=("max", "avg")),
        Field("scale", Kind.FLOAT, "", minimum=0.0),
        Field("weights", Kind.FLOATS, ""),
        Field("count", Kind.INT, "", allowed=(1, 2, 4)),
        Field("sizes", Kind.INTS, "", length=2, minimum=-1),
    ),
)
GOOD: dict[str, Any] = {"mode": "max", "scale": 0.5, "weights": (1.0, -2.5), "count": 4, "sizes": (-1, 3)}


def test_good_fields() -> None:
    assert check_fields(OP, GOOD) is None
    assert check_fields(OP, {**GOOD, "weights": ()}) is None
    assert check_fields(OP, {**GOOD, "scale": 1, "sizes": (2**31 - 1, 0)}) is None


@pytest.mark.parametrize(
    ("name", "value", "reason", "expected"),
    [
        ("mode", "sum", "not an allowed string", "one of 'max', 'avg'"),
        ("mode", b"max", "not an allowed string", "string"),
        ("scale", -0.1, "too small", "at least 0.0"),
        ("scale", float("nan"), "not a number", "float"),
        ("scale", "1", "not a number", "float"),
        ("scale", True, "not a number", "float"),
        ("weights", [1.0], "not a list", "floats"),
        ("weights", (1.0, None), "not a number", "floats"),
        ("count", 3, "not an allowed value", "one of 1, 2, 4"),
        ("count", True, "not an integer", "int"),
        ("count", 1.0, "not an integer", "int"),
        ("sizes", (1,), "1 element", "2 ints"),
        ("sizes", (1, -2), "too small", "at least -1"),
        ("sizes", (2**31, 0), "does not fit 32 bits", "2 ints"),
        ("sizes", (2**40 + 5, 0), "does not fit 32 bits", "2 ints"),
    ],
)
def test_bad_field(name: str, value: Any, reason: str, expected: str) -> None:
    refusal = check_fields(OP, {**GOOD, name: value})
    assert refusal is not None
    assert refusal.reason == f"{name} = {value!r}: {refusal.reason.split(': ', 1)[1]}"
    assert reason in refusal.reason
    assert expected in refusal.expected
    assert name in refusal.fix


def test_fields_that_are_unknown_or_missing_are_named() -> None:
    for fields, reason in (({**GOOD, "colour": 1}, "unknown field 'colour'"), ({}, "missing field 'mode'")):
        refusal = check_fields(OP, fields)
        assert refusal is not None and reason in refusal.reason


def test_both_renderings_of_every_kind() -> None:
    assert plugin_fields(OP, GOOD) == (
        FieldValue("mode", "string", "max"),
        FieldValue("scale", "float32", (0.5,)),
        FieldValue("weights", "float32", (1.0, -2.5)),
        FieldValue("count", "int32", (4,)),
        FieldValue("sizes", "int32", (-1, 3)),
    )
    node = helper.make_node("Everything", [], [], **plugin_attributes(OP, GOOD))
    parsed = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    assert fields_of_node(OP, parsed) == GOOD
    assert parsed["plugin_version"] == b"1"
    assert {type(fields_of_node(OP, parsed)[n]) for n in ("mode", "weights", "count")} == {str, tuple, int}


def test_a_node_without_a_field_is_no_plugin_node() -> None:
    with pytest.raises(KeyError, match="sizes"):
        fields_of_node(OP, {n: v for n, v in GOOD.items() if n != "sizes"})


@pytest.mark.parametrize(
    ("kind", "lengths", "raw", "expected"),
    [
        (Kind.INT, (), 3, 3),
        (Kind.INT, (), [3], 3),
        (Kind.INT, (), 2**40, 2**40),
        (Kind.INTS, (), 3, (3,)),
        (Kind.INTS, (2,), [3, 4], (3, 4)),
        (Kind.INTS, (1, 2), 3, (3,)),
        (Kind.FLOAT, (), 3, 3.0),
        (Kind.FLOAT, (), [0.5], 0.5),
        (Kind.FLOATS, (), [1, 0.5], (1.0, 0.5)),
        (Kind.STRING, (), b"max", "max"),
        (Kind.STRING, (), "max", "max"),
        (Kind.STRING, (), [b"max"], "max"),
    ],
)
def test_attribute_is_read(kind: Kind, lengths: tuple[int, ...], raw: Any, expected: Any) -> None:
    value, refusal = read_attribute(Attr("a", kind, lengths=lengths), raw)
    assert refusal is None
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("kind", "lengths", "raw"),
    [
        (Kind.INT, (), [3, 4]),
        (Kind.INT, (), []),
        (Kind.INT, (), 3.0),
        (Kind.INT, (), True),
        (Kind.INT, (), b"3"),
        (Kind.INTS, (2,), 3),
        (Kind.INTS, (2, 4), [1, 2, 3]),
        (Kind.INTS, (), [1.5]),
        (Kind.FLOAT, (), b"0.5"),
        (Kind.FLOATS, (), [None]),
        (Kind.STRING, (), 3),
        (Kind.STRING, (), [b"max", b"max"]),
    ],
)
def test_attribute_is_refused(kind: Kind, lengths: tuple[int, ...], raw: Any) -> None:
    value, refusal = read_attribute(Attr("a", kind, lengths=lengths), raw)
    assert value is None
    assert refusal is not None
    assert "'a'" in refusal.reason
    assert repr(raw) in refusal.reason
    assert kind.value in refusal.expected
    assert " or ".join(map(str, lengths)) in refusal.expected
