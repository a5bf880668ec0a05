"""Unrolls Loops that TensorRT does not run as they are and that end after a fixed number of runs."""

from __future__ import annotations

import numpy as np
import onnx

from trtsmith.converter.graph.walk import all_graphs
from trtsmith.converter.rewrite.engine.node_rule import (
    NodeRule,
    NodeView,
    Refusal,
    Replacement,
    constant_node,
)
from trtsmith.converter.rewrite.engine.statement_writer import Writer
from trtsmith.converter.rewrite.rules.control_flow.loop_bodies import changing_state, obstacle

_MOST_NODES = 20_000
"""After unrolling. TensorRT's parser and builder take about a millisecond for each."""


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    body = node.graph("body")
    why = obstacle(body) or changing_state(node, body)
    if not why:
        return _with_condition(node) if _lacks_condition(node, body) else None
    runs = _runs(node, body)
    if isinstance(runs, Refusal):
        return Refusal(f"{why}, and {runs.reason}", runs.expected, runs.fix)
    size = runs * sum(len(graph.node) for graph in all_graphs(body))
    if size > _MOST_NODES:
        return Refusal(
            f"{why}, and its {runs:,} runs would make {size:,} nodes",
            f"at most {_MOST_NODES:,} nodes",
            "export the model with a smaller body, or without what stands in the way",
        )
    return _unrolled(node, body, runs, why)


def _runs(node: NodeView, body: onnx.GraphProto) -> int | Refusal:
    """How often the body runs. Only a condition that stays true is followed."""
    name = node.input(0)
    trips = node.constant(0)
    if trips is None:
        what = f"it runs as often as {name!r} says, at run time" if name else "only its condition ends it"
        fix = f"freeze it: --freeze {name}=N" if name else "export the model with a number of runs"
        return Refusal(what, "a constant number of runs", fix)
    runs = max(int(trips.reshape(-1)[0]), 0)
    start = node.constant(1) if node.input(1) else np.array(True)
    if start is None:
        fix = f"freeze it: --freeze {node.input(1)}=1"
        return Refusal(
            f"its condition {node.input(1)!r} is computed at run time", "a constant condition", fix
        )
    if not bool(start.reshape(-1)[0]) or not runs:
        return 0
    if not _stays_true(node, body):
        return Refusal(
            f"its body computes the condition {body.output[0].name!r}, so that it may end before {runs} runs",
            "a condition that the body passes on",
            "export the model with a fixed number of runs",
        )
    return runs


def _stays_true(node: NodeView, body: onnx.GraphProto) -> bool:
    makers = {name: inner for inner in body.node for name in inner.output}
    name = body.output[0].name
    while name in makers and makers[name].op_type == "Identity":
        name = makers[name].input[0]
    if name == body.input[1].name:
        return True
    maker = makers.get(name)
    if maker is not None and maker.op_type == "Constant" and maker.attribute[0].name == "value":
        return bool(onnx.numpy_helper.to_array(maker.attribute[0].t).reshape(-1)[0])
    tensor = next((t for t in body.initializer if t.name == name), None)
    if tensor is not None:
        return bool(onnx.numpy_helper.to_array(tensor).reshape(-1)[0])
    outer = node.constant_of(name) if maker is None else None
    return outer is not None and bool(outer.reshape(-1)[0])


def _unrolled(node: NodeView, body: onnx.GraphProto, runs: int, why: str) -> Replacement | Refusal:
    states = list(node.inputs[2:])
    columns = len(body.output) - 1 - len(states)
    rows: list[list[str]] = [[] for _ in range(columns)]
    w = Writer(node)
    condition = w.const(np.array(True))
    states = [w.value(name) for name in states]
    for run in range(runs):
        results = w.graph(body, [w.const(np.array(run)), condition, *states])
        states = results[1 : 1 + len(states)]
        for row, name in zip(rows, results[1 + len(states) :], strict=True):
            row.append(name)
    for index, state in enumerate(states):
        w.do("Identity", state, result=f"y{index}")
    for index, row in enumerate(rows, len(states)):
        if not node.used(index):
            continue
        if not row:
            fix = "remove the loop where the model is exported"
            return Refusal("it never runs, and what it collects is used", "at least one run", fix)
        w.concat([w.unsqueeze(part, [0]) for part in row], 0, f"y{index}")
    return Replacement(w.nodes(), f"its body {runs} times, as {why}")


def _lacks_condition(node: NodeView, body: onnx.GraphProto) -> bool:
    """A condition that is left out and stays true: TensorRT's parser looks it up all the same.

    Where the body makes another one, ONNX ignores it and onnxruntime does not: that is left alone.
    """
    return bool(node.input(0)) and not node.input(1) and _stays_true(node, body)


def _with_condition(node: NodeView) -> Replacement:
    name = node.fresh("condition")
    loop = onnx.NodeProto()
    loop.CopyFrom(node.proto)
    loop.input[1] = name
    return Replacement([constant_node(name, np.array(True)), loop], "the Loop with a condition that is true")


LOOPS = NodeRule(
    "loops",
    "Loops of a fixed number of runs become their body, written out, where TensorRT does not run them",
    ("Loop",),
    _rewrite,
)
