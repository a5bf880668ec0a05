"""Executors that imitate an observed fault of TensorRT: several nodes update one buffer of equal constants in place."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import helper as oh

from tests.converter.locate.sabotage import node_of
from tests.converter.models import parsed
from trtsmith.converter.model.model import Model

RNG = np.random.default_rng(11)
W = RNG.standard_normal((8, 8)).astype(np.float32)
X = RNG.standard_normal((4, 8)).astype(np.float32)
ROWS = np.array([[0], [2], [3], [5]])
OTHERS = np.array([[1], [2], [4], [5]])


def messages(path: Path, *, one_buffer: bool = True, before: int = 0) -> Model:
    """x, through `before` nodes, into rows of zeros; other rows of that times w, added to rows of zeros again.

    one_buffer: both from one ConstantOfShape, else each from its own.
    """
    names = ["x", *(f"x{i}" for i in range(before))]
    negated = " ".join(f"[{b}] {b} = Neg ({a})" for a, b in itertools.pairwise(names))
    zeros = "ConstantOfShape <value = float[1] {0}> (sizes)"
    second, nought = ("zeros", "") if one_buffer else ("nought", f"[nought] nought = {zeros}")
    text = f"""(float[4, 8] x) => (float[6, 8] y) {{
        [zeros] zeros = {zeros} {negated}
        ["scatter 1"] sent = ScatterND (zeros, rows, {names[-1]})
        [gather] got = GatherND (sent, others) [product] h = MatMul (got, w) {nought}
        [old] old = GatherND ({second}, others) [new] new = Add (old, h)
        ["scatter 2"] "sent again" = ScatterND ({second}, others, new) [tanh] y = Tanh ("sent again") }}"""
    return parsed(path, text, {"sizes": np.array([6, 8]), "rows": ROWS, "others": OTHERS, "w": W})


def in_place(*, always: bool) -> Callable[[onnx.GraphProto], None]:
    """A ScatterND updates what the one before it has left of the zeros, and adds to that where it is to add to zeros.

    What it shows of the sums is right: they are computed again in its kernel.
    always: whatever the outputs are; else not where some are values between nodes and the zeros are not.
    """

    def change(graph: onnx.GraphProto) -> None:
        asked = {value.name for value in graph.output}
        if not always and {"y"} < asked and not {"zeros", "nought"} & asked:
            return
        made = {name for node in graph.node if node.op_type == "ConstantOfShape" for name in node.output}
        left = ""
        for node in list(graph.node):
            if node.op_type != "ScatterND" or node.input[0] not in made:
                continue
            if left:
                if {"old", "new"} <= {n.name for n in graph.node}:
                    again = [
                        oh.make_node("GatherND", [left, node.input[1]], ["old again"]),
                        oh.make_node("Add", ["old again", "h"], ["new again"]),
                    ]
                    for at, one in enumerate(again, [n.name for n in graph.node].index(node.name)):
                        graph.node.insert(at, one)
                    node = node_of(graph, node.name)
                    assert node is not None
                    node.input[2] = "new again"
                node.input[0] = left
            left = node.output[0]

    return change


def two_states(path: Path) -> Model:
    """A Scan over x [4,8], ten times beside itself, with two states that start from one tensor of zeros, and rows of c.

    h = 0.9 h + x, c = 0.5 c + x.
    """
    text = """(float[4, 8] x) => (float[4, 80] y)
    <int64[1] sizes = {80}, int64[2] repeats = {1, 10}, float[1] decay = {0.9}, float[1] half = {0.5}> {
        [zeros] zeros = ConstantOfShape <value = float[1] {0}> (sizes)
        [tile] n = Tile (x, repeats)
        [scan] "h end", "c end", "c rows" = Scan <num_scan_inputs = 1, body = body (float[80] h, float[80] c, float[80] row)
            => (float[80] "h next", float[80] "c next", float[80] "c row") {
            less = Mul (h, decay) "h next" = Add (less, row)
            ["of c"] "c less" = Mul (c, half) "c next" = Add ("c less", row) "c row" = Identity ("c next") }>
            (zeros, zeros, n)
        [add] y = Add ("c rows", "h end") }"""
    return parsed(path, text)


def one_buffer_of_states(graph: onnx.GraphProto) -> None:
    """The second state is where the first has just been written, if both start from a constant of the engine."""
    scan = node_of(graph, "scan")
    if scan is not None and "zeros" not in {v.name for v in graph.input}:
        body = next(a.g for a in scan.attribute if a.name == "body")
        node = node_of(body, "of c")
        assert node is not None
        node.input[0] = "h next"


def chaotic(path: Path) -> Model:
    """60 steps of s = 3.9 s (1 - s) from s = sigmoid(x) [4,8]: an error grows in each. All steps, and the last."""
    text = """(float[4, 8] x) => (float[4, 8] y, float[60, 4, 8] rows) <float[1] one = {1}> {
        [sigmoid] start = Sigmoid (x)
        [scan] end, rows = Scan <num_scan_inputs = 1, body = body (float[4, 8] s, float[1] step)
            => (float[4, 8] next, float[4, 8] row) {
            rest = Sub (one, s) product = Mul (s, rest) next = Mul (product, step) row = Identity (next) }> (start, steps)
        [neg] y = Neg (end) }"""
    return parsed(path, text, {"steps": np.full((60, 1), 3.9, np.float32)})
