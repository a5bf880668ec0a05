"""Executors that imitate what TensorRT was seen to do: one buffer for equal constants, updated in place by several nodes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import helper as oh

from tests.converter.locate.sabotage import node_of
from tests.converter.models import load, value
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
    zeros = oh.make_tensor("value", onnx.TensorProto.FLOAT, [1], [0.0])
    second = "zeros" if one_buffer else "nought"
    names = ["x", *(f"x{i}" for i in range(before))]
    nodes = [
        oh.make_node("ConstantOfShape", ["sizes"], ["zeros"], name="zeros", value=zeros),
        *(oh.make_node("Neg", [a], [b], name=b) for a, b in itertools.pairwise(names)),
        oh.make_node("ScatterND", ["zeros", "rows", names[-1]], ["sent"], name="scatter 1"),
        oh.make_node("GatherND", ["sent", "others"], ["got"], name="gather"),
        oh.make_node("MatMul", ["got", "w"], ["h"], name="product"),
        *(
            []
            if one_buffer
            else [oh.make_node("ConstantOfShape", ["sizes"], ["nought"], name="nought", value=zeros)]
        ),
        oh.make_node("GatherND", [second, "others"], ["old"], name="old"),
        oh.make_node("Add", ["old", "h"], ["new"], name="new"),
        oh.make_node("ScatterND", [second, "others", "new"], ["sent again"], name="scatter 2"),
        oh.make_node("Tanh", ["sent again"], ["y"], name="tanh"),
    ]
    constants = {"sizes": np.array([6, 8]), "rows": ROWS, "others": OTHERS, "w": W}
    return load(path, nodes, [value("x", [4, 8])], [value("y", [6, 8])], constants)


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
    zeros = oh.make_tensor("value", onnx.TensorProto.FLOAT, [1], [0.0])
    body = oh.make_graph(
        [
            oh.make_node("Mul", ["h", "decay"], ["h less"]),
            oh.make_node("Add", ["h less", "row"], ["h next"]),
            oh.make_node("Mul", ["c", "half"], ["c less"], name="of c"),
            oh.make_node("Add", ["c less", "row"], ["c next"]),
            oh.make_node("Identity", ["c next"], ["c row"]),
        ],
        "body",
        [value(name, [80]) for name in ("h", "c", "row")],
        [value(name, [80]) for name in ("h next", "c next", "c row")],
    )
    nodes = [
        oh.make_node("ConstantOfShape", ["sizes"], ["zeros"], name="zeros", value=zeros),
        oh.make_node("Tile", ["x", "repeats"], ["n"], name="tile"),
        oh.make_node(
            "Scan",
            ["zeros", "zeros", "n"],
            ["h end", "c end", "c rows"],
            name="scan",
            body=body,
            num_scan_inputs=1,
        ),
        oh.make_node("Add", ["c rows", "h end"], ["y"], name="add"),
    ]
    constants = {
        "sizes": np.array([80]),
        "repeats": np.array([1, 10]),
        "decay": np.float32([0.9]),
        "half": np.float32([0.5]),
    }
    return load(path, nodes, [value("x", [4, 8])], [value("y", [4, 80])], constants)


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
    body = oh.make_graph(
        [
            oh.make_node("Sub", ["one", "s"], ["rest"]),
            oh.make_node("Mul", ["s", "rest"], ["product"]),
            oh.make_node("Mul", ["product", "step"], ["s next"]),
            oh.make_node("Identity", ["s next"], ["row"]),
        ],
        "body",
        [value("s", [4, 8]), value("step", [1])],
        [value("s next", [4, 8]), value("row", [4, 8])],
    )
    nodes = [
        oh.make_node("Sigmoid", ["x"], ["start"], name="sigmoid"),
        oh.make_node("Scan", ["start", "steps"], ["end", "rows"], name="scan", body=body, num_scan_inputs=1),
        oh.make_node("Neg", ["end"], ["y"], name="neg"),
    ]
    constants = {"one": np.float32([1]), "steps": np.full((60, 1), 3.9, np.float32)}
    ends = [value("y", [4, 8]), value("rows", [60, 4, 8])]
    return load(path, nodes, [value("x", [4, 8])], ends, constants)
