"""Shape rules from a plugin's expressions: fields replace numbers, and ambiguity gives no rule."""

from __future__ import annotations

import pytest

from trtsmith.converter.scaffold.plugin_rules import python_text, rules_with_fields
from trtsmith.converter.scaffold.port_types import variables_of

Changes = list[tuple[dict[str, float], list[list[str]]]]


def texts(seen: str, fields: dict[str, int], changed: dict[tuple[int, ...], str]) -> str | None:
    """The rule of one dimension. changed: what other values of the fields gave."""
    others: Changes = [(dict(zip(fields, values, strict=True)), [[text]]) for values, text in changed.items()]
    rules = rules_with_fields([[seen]], fields, others)
    return python_text(rules[0][0], ["x", "y"]) if rules is not None else None


@pytest.mark.parametrize(
    ("seen", "right"),
    [
        ("i1.d2", "y[2]"),
        ("7", "7"),
        ("add(i0.d0, sub(i1.d0, 2))", "x[0] + (y[0] - 2)"),
        ("floor_div(mul(i0.d0, 2), 3)", "(x[0] * 2) // 3"),
        ("ceil_div(i0.d0, 4)", "((x[0] + 4) - 1) // 4"),
        ("min(i0.d0, i0.d1)", "smaller(x[0], x[1])"),
        ("max(i0.d0, 5)", "(x[0] + 5) - smaller(x[0], 5)"),
        ("less(i0.d0, i0.d1)", None),
        ("floor_div(i0.d0, i0.d1)", None),
    ],
)
def test_expressions(seen: str, right: str | None) -> None:
    assert texts(seen, {}, {}) == right


def test_a_number_follows_a_field() -> None:
    assert (
        texts("mul(i0.d0, 3)", {"k": 3}, {(4,): "mul(i0.d0, 4)", (5,): "mul(i0.d0, 5)"})
        == 'x[0] * fields["k"]'
    )
    affine = texts("add(i0.d0, 5)", {"k": 3}, {(4,): "add(i0.d0, 7)", (5,): "add(i0.d0, 9)"})
    assert affine == 'x[0] + ((fields["k"] * 2) + -1)'
    square = texts(
        "floor_div(i0.d0, 4)", {"k": 2}, {(3,): "floor_div(i0.d0, 9)", (4,): "floor_div(i0.d0, 16)"}
    )
    assert square == 'x[0] // (fields["k"] * fields["k"])'


def test_several_fields_need_a_change_of_all() -> None:
    alone = {(3, 3): "9", (4, 3): "12", (2, 4): "8", (2, 5): "10"}
    assert texts("6", {"h": 2, "w": 3}, alone) is None
    assert texts("6", {"h": 2, "w": 3}, {**alone, (3, 4): "12"}) == 'fields["h"] * fields["w"]'
    assert texts("6", {"h": 2, "w": 3}, {**alone, (3, 4): "13"}) is None


@pytest.mark.parametrize(
    "changed",
    [
        {(4,): "4"},  # seen once: a sum, a product, or anything else
        {(4,): "7", (5,): "12"},
        {(4,): "4", (5,): "mul(i0.d0, 5)"},  # another rule
    ],
)
def test_no_rule_is_guessed(changed: dict[tuple[int, ...], str]) -> None:
    assert texts("3", {"k": 3}, changed) is None


def test_no_number_follows_a_fraction() -> None:
    changed: Changes = [({"scale": 2.0}, [["mul(i0.d0, 2)"]]), ({"scale": 3.0}, [["mul(i0.d0, 3)"]])]
    assert rules_with_fields([["mul(i0.d0, 1)"]], {"scale": 1.0}, changed) is None
    same: Changes = [({"scale": 2.0}, [["i0.d0"]])]
    assert rules_with_fields([["i0.d0"]], {"scale": 1.0}, same) is not None


def test_type_variables_of_what_a_plugin_takes() -> None:
    half = ("float32", "float16")
    assert variables_of({(one, "int32", one) for one in half}, 2) == ["T", "S", "T"]
    assert variables_of({(one, index) for one in half for index in ("int32", "int64")}, 2) == ["T", "I"]
    assert variables_of({("bool", "float32")}, 1) == ["B", "F"]
    for taken in ({("int8", "int8")}, {("int32", one) for one in half}):
        with pytest.raises(ValueError, match="takes"):
            variables_of(taken, 1)
