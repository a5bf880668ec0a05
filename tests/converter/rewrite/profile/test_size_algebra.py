"""The algebra of sizes against Python's integers: intervals hold, and equal expressions are equal numbers."""

from collections.abc import Callable

import numpy as np
import pytest

from trtsmith.converter.rewrite.profile.size_algebra import MOST, SizeAlgebra, SizeExpr, constant

BOUNDS = {"n": (1, 4), "h": (0, 9), "w": (2, 3), "k": (5, 5)}

STEPS: dict[str, tuple[Callable[..., SizeExpr | None], Callable[[int, int], int]]] = {
    "add": (SizeAlgebra.add, lambda a, b: a + b),
    "sub": (SizeAlgebra.sub, lambda a, b: a - b),
    "mul": (SizeAlgebra.mul, lambda a, b: a * b),
    "floor_div": (SizeAlgebra.floor_div, lambda a, b: a // b),
    "mod": (SizeAlgebra.mod, lambda a, b: a % b),
    "smaller": (SizeAlgebra.smaller, min),
    "larger": (SizeAlgebra.larger, max),
    "less": (SizeAlgebra.less, lambda a, b: int(a < b)),
    "equal": (SizeAlgebra.equal, lambda a, b: int(a == b)),
}


@pytest.mark.parametrize("seed", range(60))
def test_drawn_expressions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    algebra = SizeAlgebra()
    points = [{name: int(rng.integers(a, b + 1)) for name, (a, b) in BOUNDS.items()} for _ in range(12)]
    pool = [(algebra.atom(name, *BOUNDS[name]), [point[name] for point in points]) for name in BOUNDS]
    pool += [(constant(number), [number] * len(points)) for number in (-3, 0, 1, 2, 6)]
    for _ in range(120):
        (a, left), (b, right) = (pool[rng.integers(len(pool))] for _ in range(2))
        step, compute = STEPS[list(STEPS)[rng.integers(len(STEPS))]]
        found = step(algebra, a, b)
        if found is None:
            continue
        numbers = [compute(x, y) for x, y in zip(left, right, strict=True)]
        assert all(found.low <= number <= found.high for number in numbers)
        pool.append((found, numbers))
    by_expr: dict[SizeExpr, list[int]] = {}
    for expr, numbers in pool:
        assert by_expr.setdefault(expr, numbers) == numbers
    assert len(by_expr) < len(pool), "some expressions were made twice"


def test_multiples_are_known() -> None:
    algebra = SizeAlgebra()
    n = algebra.atom("n", 1, 8)
    heads = algebra.mul(n, constant(12))
    assert heads is not None
    assert algebra.floor_div(heads, constant(4)) == algebra.mul(n, constant(3))
    assert algebra.mod(heads, constant(3)) == constant(0)
    more = algebra.add(heads, constant(5))
    assert more is not None and algebra.floor_div(more, constant(12)) == n
    assert algebra.equal(more, constant(24)).number == 0
    assert algebra.equal(heads, constant(24)).number is None
    assert algebra.floor_div(heads, n) == constant(12)


def test_floors_of_what_is_negative() -> None:
    algebra = SizeAlgebra()
    n = algebra.atom("n", 1, 8)
    below = algebra.sub(n, constant(9))
    assert below is not None and (below.low, below.high) == (-8, -1)
    half = algebra.floor_div(below, constant(2))
    assert half is not None and (half.low, half.high) == (-4, -1)
    assert algebra.floor_div(below, n) is None and algebra.floor_div(n, constant(-2)) is None
    assert algebra.floor_div(n, constant(0)) is None


def test_what_leaves_64_bits_is_given_up() -> None:
    algebra = SizeAlgebra()
    n = algebra.atom("n", 0, MOST)
    square = algebra.mul(n, n)
    assert square is not None and square.high == MOST**2
    assert algebra.mul(square, n) is None
    assert algebra.mul(constant(2**62), constant(4)) is None


def test_an_atom_in_another_interval_is_another_one() -> None:
    algebra = SizeAlgebra()
    assert algebra.fresh("n", 1, 4) == algebra.fresh("n", 1, 4) != algebra.fresh("n", 1, 5)
    assert algebra.fresh("n", 3, 3) == constant(3)
