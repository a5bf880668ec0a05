"""What is said to do, by what is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from trtsmith.converter.locate.describe import MOST_NAMED, advice
from trtsmith.converter.locate.node_judge import arithmetic
from trtsmith.converter.locate.reduced_precision import ReducedNodes
from trtsmith.converter.rewrite.rewrite import Rewritten
from trtsmith.converter.verify.compare import Comparison, compare
from trtsmith.converter.verify.tolerances import parse_tolerances


def again(names: object) -> Rewritten:
    raise AssertionError(names)


def reduction(*kinds: str) -> ReducedNodes:
    return ReducedNodes(tuple((f"n{i}", kind) for i, kind in enumerate(kinds)), again)


def off(dtype: str = "float32") -> Comparison:
    expected = np.array([1, 2, 300]).astype(dtype)
    (found,) = compare({"y": expected}, {"y": (expected + np.array([1, 0, 7])).astype(dtype)})
    assert not found.agrees
    return found


@pytest.mark.parametrize(
    ("dtypes", "tf32", "told"),
    [
        (["int64", "float16", "float32"], True, "fp16"), (["bfloat16", "float32"], True, "bf16"),
        (["float32", "bool"], True, "tf32"), (["float32"], False, "fp32"),
    ],
)  # fmt: skip
def test_the_arithmetic_is_that_of_the_narrowest_values(dtypes: list[str], tf32: bool, told: str) -> None:
    assert arithmetic(dtypes, tf32) == told


def test_flags_are_written_so_that_a_shell_reads_them() -> None:
    graph = ReducedNodes((("/a/b", "Mul"), ("my node", "Sub")), again)
    assert "--keep-fp32 /a/b --keep-fp32 'my node' " in advice("fp16", (), graph, ("/a/b", "my node"))[0]


def test_of_many_nodes_the_ends_are_told() -> None:
    graph = reduction(*["Conv"] * 20)
    names = [name for name, _ in graph.nodes][2 : 2 + MOST_NAMED + 1]
    said = advice("fp16", (), graph, names)[0]
    assert "9 of 20 nodes" in said and "from 'n2' (Conv) to 'n10' (Conv)" in said and "'n5'" not in said


def test_the_tolerance_that_is_named_allows_what_was_seen() -> None:
    seen = off()
    (said,) = advice("tf32", (seen,), None, ())
    flag, value = said.split()[:2]
    expected = np.array([1, 2, 300], np.float32)
    outputs = {"y": expected}, {"y": expected + np.array([1, 0, 7], np.float32)}
    assert flag == "--atol" and compare(*outputs, parse_tolerances([], [value]))[0].agrees
    assert not compare(*outputs, parse_tolerances([], ["y:6.9"]))[0].agrees


@pytest.mark.parametrize("seen", [off("int64"), replace(off(), max=0.0)])
def test_what_no_tolerance_allows_gets_none(seen: Comparison) -> None:
    assert advice("tf32", (seen,), None, ()) == ()


@pytest.mark.parametrize(
    ("precision", "graph", "wide", "first", "last"),
    [
        ("bf16", reduction("Mul"), (), "does not help", ""),
        ("fp16", reduction("Mul"), ("n0",), "", "--precision bf16 where values are beyond 65504: it rounds 8 times coarser"),
        ("bf16", reduction("Mul"), ("n0",), "", "--precision fp16 where no value is beyond 65504: it rounds 8 times finer"),
        ("fp16", None, (), "--precision fp32 computes in float32 what the model has in float16", ""),
    ],
)  # fmt: skip
def test_what_to_try_follows_from_the_precision(
    precision: str, graph: ReducedNodes | None, wide: tuple[str, ...], first: str, last: str
) -> None:
    said = advice(precision, (), graph, wide)
    assert first in said[0] and last in ("", said[-1]) and (graph is not None or len(said) == 1)
    assert advice("tf32", (), None, ()) == ()
