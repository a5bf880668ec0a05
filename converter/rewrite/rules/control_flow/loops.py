"""Rewrites Loops for TensorRT: gives them a trip count, writes Gathers at the counter, or unrolls the body.

Asked of TensorRT-RTX 1.7.1: a condition ends a loop as it should, but what the loop collects is always as long as its number
of runs says, whenever the condition ends it; without such a number the parser refuses it.
"""

from __future__ import annotations

from copy import deepcopy
from shlex import quote

import numpy as np
import onnx
from onnx import TensorProto, helper

from trtsmith.converter.graph.tensor_types import dims_of
from trtsmith.converter.graph.walk import all_graphs
from trtsmith.converter.rewrite.engine.node_rule import (
    NodeView,
    Refusal,
    Replacement,
    constant_node,
    node_rule,
)
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.control_flow.loop_bodies import changing_state, obstacle
from trtsmith.converter.rewrite.rules.control_flow.loop_slices import SliceWriter
from trtsmith.converter.rewrite.rules.control_flow.loop_states import (
    pruned,
    with_collected_rows,
    with_steady_shapes,
    without_spare_states,
)
from trtsmith.converter.rewrite.rules.control_flow.loop_values import LONGEST, LoopValues
from trtsmith.converter.rewrite.rules.control_flow.trip_counts import LoopCondition, TripCount, read_condition


def unrolled(
    node: NodeView, body: onnx.GraphProto, condition: LoopCondition, trips: TripCount, why: str
) -> Replacement | Refusal:
    """Unrolls the Loop. why: the reason that TensorRT cannot run it, in words."""
    runs = _runs(node, body, condition, trips)
    if isinstance(runs, Refusal):
        return Refusal(f"{why}, and {runs.reason}", runs.expected, runs.fix)
    return _written_out(node, body, runs, why)


def _runs(node: NodeView, body: onnx.GraphProto, condition: LoopCondition, trips: TripCount) -> int | Refusal:
    """The number of runs if it is known now, else a Refusal."""
    known = trips.constant()
    if known is not None and (condition.exact or known == 0):
        return known
    name, start = node.input(0), node.input(1)
    if name and node.constant(0) is None:
        what, fix = (
            f"{name!r} gives its number of runs at run time",
            f"freeze it: --freeze {quote(name)}=N",
        )
        return Refusal(what, "a constant number of runs", fix)
    if not trips.limited:
        fix = "export the model with a number of runs"
        return Refusal("only its condition ends it", "a constant number of runs", fix)
    if start and node.constant(1) is None:
        fix = f"freeze it: --freeze {quote(start)}=1"
        return Refusal(f"its condition {start!r} is computed at run time", "a constant condition", fix)
    if not condition.exact:
        return Refusal(
            f"its body computes the condition {body.output[0].name!r}, which may end it before {known} runs",
            "a condition that counts runs, or that the body passes on",
            "export the model with a fixed number of runs",
        )
    fix = "fix these sizes: --shapes with equal minimum and maximum"
    return Refusal("sizes known only at run time give its number of runs", "a constant number of runs", fix)


def _written_out(node: NodeView, body: onnx.GraphProto, runs: int, why: str) -> Replacement | Refusal:
    w = Writer(node)
    _expect(w, why, runs, body, "or with a constant number of runs that TensorRT can loop over")
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
            return Refusal("it never runs, but its scan outputs are used", "at least one run", fix)
        states = [*states, w.Concat(*(w.Unsqueeze(part, axes=[0]) for part in row), axis=0)]
    return Replacement(w.finish(*states), f"its body {runs} times, as {why}")


def _expect(w: Writer, why: str, runs: int, body: onnx.GraphProto, fix: str) -> None:
    """Checks the limit on new nodes for the unrolled runs."""
    size = runs * sum(len(graph.node) for graph in all_graphs(body))
    fix = f"export the model with a smaller body, {fix}"
    w.expect(f"{why}, and its {runs:,} runs", nodes=size, fix=fix)


@node_rule("scans", "Scan")
def scans_rule(node: NodeView) -> Replacement | Refusal | None:
    """Unrolls Scans of fixed length that TensorRT does not run."""
    body = node.graph("body")
    why = obstacle(body)
    if not why:
        return None
    count = node.attributes["num_scan_inputs"]
    first = len(node.inputs) - count
    if node.version < 9:
        return Refusal(
            f"{why}, in a Scan of opset 8", "opset 9 or later", "convert the model to opset 9 or later"
        )
    axes = node.attributes.get("scan_input_axes") or [0] * count
    backwards = node.attributes.get("scan_input_directions") or [0] * count
    shape = node.shape(first)
    runs = shape[axes[0]] if shape else None
    if runs is None:
        fix = "export the model with that dimension fixed"
        return Refusal(f"{why}, and the length of {node.input(first)!r} is unknown", "a fixed length", fix)
    w = Writer(node)
    _expect(w, why, runs, body, "or with a shorter sequence")
    columns = []
    for index in range(count):
        parts = w.split(w.x[first + index], [1] * runs, axes[index])
        column = [w.Squeeze(part, axes=[axes[index]]) for part in parts]
        columns.append(column[:: -1 if backwards[index] else 1])
    states = [w.x[index] for index in range(first)]
    rows: list[list[Value]] = [[] for _ in range(len(body.output) - first)]
    for row in zip(*columns, strict=True):
        outputs = w.inline(body, [*states, *row])
        states = outputs[:first]
        for made, name in zip(rows, outputs[first:], strict=True):
            made.append(name)
    out_axes = node.attributes.get("scan_output_axes") or [0] * len(rows)
    turned = node.attributes.get("scan_output_directions") or [0] * len(rows)
    for made, axis, turn in zip(rows, out_axes, turned, strict=True):
        ordered = (w.Unsqueeze(part, axes=[axis]) for part in made[:: -1 if turn else 1])
        states = [*states, w.Concat(*ordered, axis=axis)]
    return Replacement(w.finish(*states), f"its body {runs} times, as {why}")


@node_rule("loops", "Loop")
def loops_rule(node: NodeView) -> Replacement | Refusal | None:
    """Gives Loops that TensorRT does not run a trip count and Gathers at the counter, or unrolls them."""
    body = node.graph("body")
    unclear = _unclear(node)
    if unclear is not None:
        return unclear
    collects = any(node.used(index) for index in range(len(node.inputs) - 2, len(node.outputs)))
    why = obstacle(body) or changing_state(node, body)
    if not why and (not collects or _passes_on(node, body) or _is_cut_off(node)):
        return _with_condition(node) if _lacks_condition(node, body) else None
    values = LoopValues(node, body)
    condition = read_condition(values, node.constant(0))
    trips = TripCount(node, values, condition)
    done = ""
    if why:
        mended = (
            without_spare_states(node, values, trips)
            or with_collected_rows(node, values)
            or with_steady_shapes(node, values, trips)
        )
        if mended is not None:
            return mended
        gathered, refused = SliceWriter(node, values, condition.bounds()).body()
        left = why if gathered is None else obstacle(gathered) or changing_state(node, gathered)
        if gathered is None or left:
            return unrolled(node, body, condition, trips, refused or left)
        body, done = gathered, "Gathers at its counter"
    return _counted(node, body, condition, trips, done, collects=collects)


def _unclear(node: NodeView) -> Refusal | None:
    """Refuses a trip count or condition that does not have exactly one element."""
    for index, name in enumerate(("number of runs", "condition")):
        value = node.constant(index) if node.input(index) else None
        if value is not None and value.size != 1:
            what = f"its {name} {node.input(index)!r} has {value.size} elements"
            return Refusal(what, "one element", "correct the node where the model is exported")
    return None


def _counted(
    node: NodeView,
    body: onnx.GraphProto,
    condition: LoopCondition,
    trips: TripCount,
    done: str,
    *,
    collects: bool,
) -> Replacement | Refusal:
    """The Loop with a trip count and a condition that stays true if the count is known; else with its scan outputs cut off.

    A number of runs that changes in a loop around it is none of TensorRT's: there the condition stays.
    """
    if trips.constant() == 0:
        return unrolled(node, body, condition, trips, "it never runs")
    w = Writer(node)
    wanted = [bool(name) for name in node.outputs]
    varies = trips.constant() is None and bool({"Loop", "Scan"} & set(node.inside()))
    if condition.exact and trips.limited and (collects or not varies):
        runs, true = _shaped(w, body, 0, trips.write(w)), _shaped(w, body, 1, w.constant(True))
        results = w.Loop(runs, true, *w.x[2:], outputs=wanted, body=_never_ending(node, body))
        counted = "" if condition.true else "the number of runs that its condition counts"
        what = " and ".join(filter(None, (done, counted))) or "its number of runs"
        return Replacement(w.finish(*results), what)
    if not collects:
        return Replacement(w.finish(*w.Loop(*w.x, outputs=wanted, body=pruned(body))), done)
    if not trips.limited or node.opset < 10:
        return Refusal(
            f"its body computes the condition {body.output[0].name!r}, which alone ends it, and its scan outputs are used",
            f"an upper bound of its number of runs, {LONGEST} at most, and opset 10 or later",
            "export the model with that bound as the Loop's first input",
        )
    nodes = w.finish(*_cut_off(w, body, trips.write(w)))
    return Replacement(nodes, " and ".join(filter(None, (done, "what it collects cut off where it ends"))))


def _shaped(w: Writer, body: onnx.GraphProto, index: int, scalar: Value) -> Value:
    """A trip count or condition in the shape that the body declares; some exporters declare one-element vectors."""
    dims = dims_of(body.input[index].type)
    return w.Reshape(scalar, shape=[1]) if dims else scalar


def _never_ending(node: NodeView, body: onnx.GraphProto) -> onnx.GraphProto:
    """The body with its condition passed on unchanged."""
    changed = deepcopy(body)
    passed = node.fresh("condition")
    changed.node.append(helper.make_node("Identity", [body.input[1].name], [passed]))
    changed.output[0].name = passed
    return pruned(changed)


def _cut_off(w: Writer, body: onnx.GraphProto, runs: Value) -> list[Value | None]:
    """The Loop with a state that counts its runs, and with Slices of its scan outputs to that count."""
    node, states = w.node, len(w.x) - 2
    before, after, one = (node.fresh(hint) for hint in ("runs_before", "runs", "one"))
    changed = deepcopy(pruned(body))
    columns = list(changed.output[1 + states :])
    del changed.output[1 + states :]
    changed.input.append(helper.make_tensor_value_info(before, TensorProto.INT64, [1]))
    changed.node.append(constant_node(one, np.array([1])))
    changed.node.append(helper.make_node("Add", [before, one], [after]))
    changed.output.append(helper.make_tensor_value_info(after, TensorProto.INT64, [1]))
    changed.output.extend(columns)
    first = w.x[1] if node.input(1) else _shaped(w, body, 1, w.constant(True))
    wanted = [bool(name) for name in node.outputs]
    results = w.Loop(
        _shaped(w, body, 0, runs),
        first,
        *w.x[2:],
        [0],
        outputs=[*wanted[:states], True, *wanted[states:]],
        body=changed,
    )
    count, whole = results[states], results[states + 1 :]
    cut = [w.Slice(value, [0], count, [0]) if value.name else None for value in whole]
    return [*results[:states], *cut]


def _is_cut_off(node: NodeView) -> bool:
    """Whether the scan outputs are already cut off where the Loop ends."""
    states = len(node.inputs) - 2
    counts = set(node.outputs[:states])
    readers = [reader for index in range(states, len(node.outputs)) for reader in node.readers(index)]
    return all(
        reader is not None and reader.op_type == "Slice" and reader.input[2] in counts for reader in readers
    )


def _passes_on(node: NodeView, body: onnx.GraphProto) -> bool:
    """Whether the condition stays true and starts true, or starts false only with a trip count of 0."""
    start = node.constant(1) if node.input(1) else np.array(True)
    true = _is_of_runs(node) if start is None else bool(start.reshape(-1)[0])
    return true and _stays_true(node, body)


def _is_of_runs(node: NodeView) -> bool:
    """Whether the start condition is a Cast of the trip count, so that false means no runs, as in ONNX's Range body."""
    condition, runs = node.producer(1), node.producer(0)
    if condition is None or condition.op_type != "Cast" or condition.domain not in ("", "ai.onnx"):
        return False
    counted = str(condition.input[0])
    if runs is not None and runs.op_type == "Cast":
        return counted in (runs.input[0], node.input(0))
    return counted == node.input(0)


def _stays_true(node: NodeView, body: onnx.GraphProto) -> bool:
    makers = {name: inner for inner in body.node for name in inner.output}
    name = body.output[0].name
    while name in makers and makers[name].op_type == "Identity":
        name = makers[name].input[0]
    if name == body.input[1].name:
        return True
    maker = makers.get(name)
    if maker is not None and maker.op_type == "Constant" and maker.attribute[0].name == "value":
        return _is_true(onnx.numpy_helper.to_array(maker.attribute[0].t))
    tensor = next((t for t in body.initializer if t.name == name), None)
    if tensor is not None:
        return _is_true(onnx.numpy_helper.to_array(tensor))
    outer = node.constant_of(name) if maker is None else None
    return outer is not None and _is_true(outer)


def _is_true(value: np.ndarray) -> bool:
    return value.size == 1 and bool(value.reshape(-1)[0])


def _lacks_condition(node: NodeView, body: onnx.GraphProto) -> bool:
    """Whether the start condition is left out and stays true; TensorRT's parser looks it up all the same.

    Where the body makes another one, ONNX ignores it and onnxruntime does not: that is left alone.
    """
    return bool(node.input(0)) and not node.input(1) and _stays_true(node, body)


def _with_condition(node: NodeView) -> Replacement:
    name = node.fresh("condition")
    loop = deepcopy(node.proto)
    loop.input[1] = name
    return Replacement([constant_node(name, np.array(True)), loop], "the Loop with a condition that is true")
