"""Shape rules are found by trials: which sizes are free, fixed or shared, and how outputs follow."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from trtsmith.converter.scaffold.shape_rules import NoRuleError, Sizes, find_rules

Shape = tuple[int, ...]

RULES: dict[str, Callable[[Shape], Shape]] = {
    "x[0], x[1]": lambda x: (x[0], x[1]),
    "x[1], x[0]": lambda x: (x[1], x[0]),
    'x[0] // fields["window"], x[1]': lambda x: (x[0] // 4, x[1]),
    "x[0] + 2, 7": lambda x: (x[0] + 2, 7),
    "x[0] * x[1]": lambda x: (x[0] * x[1],),
    "x[0] + x[1]": lambda x: (x[0] + x[1],),
    "x[1] * 3": lambda x: (x[1] * 3,),
    "(x[0] + 1) // 2": lambda x: ((x[0] + 1) // 2,),
    '(x[0] + 3) // fields["window"]': lambda x: ((x[0] + 3) // 4,),
    'x[0] - fields["window"]': lambda x: (x[0] - 4,),
}


@pytest.mark.parametrize("text", RULES)
def test_a_rule_of_one_input(text: str) -> None:
    def run(sizes: Sizes) -> Sizes | None:
        made = RULES[text](sizes["x"])
        return {"y": made} if min(made) >= 0 else None

    rules = find_rules({"x": (9, 5)}, {"window": 4}, run)
    assert ", ".join(rules.outputs["y"]) == text
    assert rules.free == ((("x", 0),), (("x", 1),)) and rules.fixed == ()
    assert rules.tried[0] == {"x": (9, 5)} and rules.first == {"y": RULES[text]((9, 5))}


def test_sizes_that_must_agree_and_sizes_that_are_fixed() -> None:
    def matmul(sizes: Sizes) -> Sizes | None:
        (n, k), (k2, m) = sizes["a"], sizes["b"]
        return {"y": (n, m)} if k == k2 and m == 5 else None

    rules = find_rules({"a": (3, 6), "b": (6, 5)}, {}, matmul)
    assert rules.free == ((("a", 0),), (("a", 1), ("b", 0)))
    assert rules.fixed == ((("b", 1), 5),)
    assert rules.outputs == {"y": ("a[0]", "5")}


def test_sizes_that_are_equal_in_the_example_alone() -> None:
    def added(sizes: Sizes) -> Sizes | None:
        x, y, square = sizes["x"], sizes["y"], sizes["square"]
        return {"z": (x[1], x[0])} if x == y and len({*square}) == 1 else None

    rules = find_rules({"x": (6, 6), "y": (6, 6), "square": (6, 6, 6)}, {}, added)
    assert rules.free == (
        (("x", 0), ("y", 0)),
        (("x", 1), ("y", 1)),
        (("square", 0), ("square", 1), ("square", 2)),
    )
    assert rules.outputs == {"z": ("x[1]", "x[0]")}


def test_batches_of_one_image_are_of_one_size_and_a_factor_for_all_is_not() -> None:
    def broadcast(sizes: Sizes) -> Sizes | None:
        try:
            return {"y": np.broadcast_shapes(sizes["x"], sizes["gate"])}
        except ValueError:
            return None

    found = find_rules({"x": (1, 8), "gate": (1, 8)}, {}, broadcast)
    assert found.free == ((("x", 0), ("gate", 0)), (("x", 1), ("gate", 1)))
    assert found.outputs == {"y": ("x[0]", "x[1]")}
    found = find_rules({"x": (2, 8), "gate": (1, 8)}, {}, broadcast)
    assert found.free == ((("x", 0),), (("x", 1), ("gate", 1)))
    assert found.fixed == ((("gate", 0), 1),)
    apart = find_rules({"x": (1, 8), "y": (1, 8)}, {}, lambda sizes: {"z": (sizes["x"][0], sizes["y"][0])})
    assert apart.outputs == {"z": ("x[0]", "y[0]")}


def test_a_size_that_goes_in_multiples() -> None:
    def groups(sizes: Sizes) -> Sizes | None:
        (n,) = sizes["x"]
        return {"y": (n // 4, 4)} if n % 4 == 0 else None

    rules = find_rules({"x": (8,)}, {"groups": 4}, groups)
    assert rules.free == ((("x", 0),),)
    assert rules.outputs == {"y": ('x[0] // fields["groups"]', 'fields["groups"]')}


def test_a_size_without_a_rule_and_shapes_that_are_not_taken() -> None:
    with pytest.raises(NoRuleError) as caught:
        find_rules({"x": (5,)}, {}, lambda sizes: {"y": (sizes["x"][0] ** 3 % 11,)})
    assert caught.value.args[:2] == ("y", 0)
    with pytest.raises(LookupError):
        find_rules({"x": (5,)}, {}, lambda _: None)
