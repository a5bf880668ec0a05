"""The expressions of a Triton kernel's declaration: what they may hold, what they become, and what is refused."""

from __future__ import annotations

import pytest

from trtsmith.converter.compile.triton_kernels.launch_expressions import (
    ExpressionError,
    LaunchScope,
    bare_name,
    condition,
    integers,
)
from trtsmith.importers.registry import by_name

SCOPE_OF = by_name()["DeformableConvolution"]
"""With inputs x, offset and weight of rank 4, an optional bias, and lists of integers as fields."""


def scope() -> LaunchScope:
    parameters = {
        "rows": "x.shape[0] * columns",
        "columns": "x.shape[-1]",
        "round": "again",
        "again": "round",
    }
    return LaunchScope(SCOPE_OF, parameters, frozenset({"BLOCK", "WIDTH"}))


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("7", "int64_t{7}"),
        ("-2", "subtract(0, int64_t{2})"),
        ("x.shape[1] + 1", 'add(dimension(t.in[0], 1, "x"), int64_t{1})'),
        ("x.size // 2 % 3", "modulo(floorDivide(elements(t.in[0]), int64_t{2}), int64_t{3})"),
        ("min(BLOCK, 4) - max(WIDTH, BLOCK)", None),
        ("columns", 'dimension(t.in[0], -1, "x")'),
        ("rows", 'multiply(dimension(t.in[0], 0, "x"), dimension(t.in[0], -1, "x"))'),
        ("stride[1]", "int64_t{p.stride[1]}"),
        ("output.shape[0]", 'dimension(t.out[0], 0, "output")'),
        ("ceil_div(x.size, BLOCK)", "ceilDivide(elements(t.in[0]), constants[0])"),
    ],
)
def test_integers(text: str, written: str | None) -> None:
    (found,) = integers(text, scope())
    assert found == (written or "subtract(least(constants[0], int64_t{4}), most(constants[1], constants[0]))")


def test_a_grid_has_up_to_three_parts() -> None:
    assert integers("1, 2", scope(), (1, 3)) == ("int64_t{1}", "int64_t{2}")
    with pytest.raises(ExpressionError, match="it has 4 parts, not 1 to 3"):
        integers("1, 2, 3, 4", scope(), (1, 3))


def test_conditions() -> None:
    assert condition("", scope()) == "true"
    assert condition("1 < BLOCK <= 3", scope()) == "(int64_t{1} < constants[0] && constants[0] <= int64_t{3})"
    assert condition("not (1 == 2 or 3 != 4)", scope()) == (
        "!((int64_t{1} == int64_t{2}) || (int64_t{3} != int64_t{4}))"
    )


def test_names_with_an_index() -> None:
    assert bare_name("x") == ("x", None)
    assert bare_name(" stride[1] ") == ("stride", 1)
    assert bare_name("x.size") is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("__import__('os')", "is none of what an expression may hold"),
        ("(lambda: 1)()", "is none of what an expression may hold"),
        ("x.__class__", "is none of what an expression may hold"),
        ("x.shape", "is none of what an expression may hold"),
        ("x[0]", "'x' is no field that is a list of integers"),
        ("2 ** 9", "is none of what an expression may hold"),
        ("1.5", "is none of what an expression may hold"),
        ("True", "is none of what an expression may hold"),
        ("1 / 2", "is none of what an expression may hold"),
        ("min(1)", "min takes two arguments"),
        ("x", "'x' is a tensor; its sizes are x.shape"),
        ("nothing", "nothing is called 'nothing'"),
        ("nothing.shape[0]", "no input or output is called 'nothing'"),
        ("bias.shape[0]", "'bias' is optional"),
        ("x.shape[4]", "'x' has 4 dimensions; there is no x.shape[4]"),
        ("x.shape[BLOCK]", "`BLOCK` is not a whole number"),
        ("stride[2]", "field 'stride' has 2 numbers; there is no stride[2]"),
        ("stride", "field 'stride' is not one integer"),
        ("round", "round -> again -> round goes round in a circle"),
        ("9223372036854775808", "does not fit into 64 bits"),
        ("1 +", "it is not an expression"),
        ("a = 1", "it is not an expression"),
        ("", "it is not an expression"),
        ("(" * 40 + "1" + ")" * 40 + "+1" * 40, "it is nested too deeply"),
        ("1" + "+1" * 600, "it has more than 1000 characters"),
    ],
)
def test_what_is_refused(text: str, words: str) -> None:
    with pytest.raises(ExpressionError) as refused:
        integers(text, scope())
    assert words in str(refused.value)


def test_a_condition_is_a_comparison() -> None:
    with pytest.raises(ExpressionError, match="`BLOCK` is not a comparison"):
        condition("BLOCK", scope())
    with pytest.raises(ExpressionError, match="is not a comparison"):
        condition("1 in 2", scope())
