"""Writes the body of a Loop out, as often as it runs."""

from __future__ import annotations

import onnx

from trtsmith.converter.graph.walk import all_graphs
from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.control_flow.trip_counts import LoopCondition, TripCount

_MOST_NODES = 20_000
"""After unrolling. TensorRT's parser and builder take about a millisecond for each."""


def unrolled(
    node: NodeView, body: onnx.GraphProto, condition: LoopCondition, trips: TripCount, why: str
) -> Replacement | Refusal:
    """The body, written out. why: what TensorRT does not run of it, in words."""
    runs = _runs(node, body, condition, trips)
    if isinstance(runs, Refusal):
        return Refusal(f"{why}, and {runs.reason}", runs.expected, runs.fix)
    size = runs * sum(len(graph.node) for graph in all_graphs(body))
    if size > _MOST_NODES:
        return Refusal(
            f"{why}, and its {runs:,} runs would make {size:,} nodes",
            f"at most {_MOST_NODES:,} nodes",
            "export the model with a smaller body, or without what stands in the way",
        )
    return _written_out(node, body, runs, why)


def _runs(node: NodeView, body: onnx.GraphProto, condition: LoopCondition, trips: TripCount) -> int | Refusal:
    """How often the body runs, where that is known now."""
    known = trips.constant()
    if known is not None and (condition.exact or known == 0):
        return known
    name, start = node.input(0), node.input(1)
    if name and node.constant(0) is None:
        what, fix = f"it runs as often as {name!r} says, at run time", f"freeze it: --freeze {name}=N"
        return Refusal(what, "a constant number of runs", fix)
    if not trips.limited:
        fix = "export the model with a number of runs"
        return Refusal("only its condition ends it", "a constant number of runs", fix)
    if start and node.constant(1) is None:
        fix = f"freeze it: --freeze {start}=1"
        return Refusal(f"its condition {start!r} is computed at run time", "a constant condition", fix)
    if not condition.exact:
        return Refusal(
            f"its body computes the condition {body.output[0].name!r}, so that it may end before {known} runs",
            "a condition that counts runs, or that the body passes on",
            "export the model with a fixed number of runs",
        )
    fix = "fix these sizes: --shapes with equal minimum and maximum"
    return Refusal("sizes at run time decide how often it runs", "a constant number of runs", fix)


def _written_out(node: NodeView, body: onnx.GraphProto, runs: int, why: str) -> Replacement | Refusal:
    w = Writer(node)
    states, condition = w.x[2:], w.constant(True)
    rows: list[list[Value]] = [[] for _ in range(len(body.output) - 1 - len(states))]
    for run in range(runs):
        results = w.inline(body, [w.constant(run), condition, *states])
        states = results[1 : 1 + len(states)]
        for row, name in zip(rows, results[1 + len(states) :], strict=True):
            row.append(name)
    for index, row in enumerate(rows, len(states)):
        if node.used(index) and not row:
            fix = "remove the loop where the model is exported"
            return Refusal("it never runs, and what it collects is used", "at least one run", fix)
        states = [*states, w.Concat(*(w.Unsqueeze(part, axes=[0]) for part in row), axis=0)]
    return Replacement(w.finish(*states), f"its body {runs} times, as {why}")
