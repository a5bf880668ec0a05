"""Scans over a fixed length that TensorRT does not run as they are: the body, written out."""

from __future__ import annotations

import onnx
from onnx import helper

from trtsmith.converter.rewrite.engine.inline_graph import graph_attribute, inlined, stacked
from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.opset_forms import split, squeeze
from trtsmith.converter.rewrite.rules.control_flow.loop_bodies import obstacle


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    body = graph_attribute(node.proto, "body")
    why = obstacle(body)
    if not why:
        return None
    count = node.attributes["num_scan_inputs"]
    states = list(node.inputs[: len(node.inputs) - count])
    if node.version < 9:
        return Refusal(
            f"{why}, in a Scan of opset 8", "opset 9 or later", "convert the model to opset 9 or later"
        )
    axes = node.attributes.get("scan_input_axes") or [0] * count
    backwards = node.attributes.get("scan_input_directions") or [0] * count
    first = len(states)
    shape = node.shape(first)
    runs = shape[axes[0]] if shape else None
    if runs is None:
        fix = "export the model with that dimension fixed"
        return Refusal(f"{why}, and the length of {node.input(first)!r} is unknown", "a fixed length", fix)
    nodes: list[onnx.NodeProto] = []
    columns = []
    for index in range(count):
        parts = [f"part_{i}" for i in range(runs)]
        names = {f"row_{i}": node.fresh(f"row_{index}") for i in range(runs)}
        lines = [split(parts, f"x{first + index}", [1] * runs, axes[index], node.opset)]
        lines += [squeeze(f"made_{i}", part, [axes[index]], node.opset) for i, part in enumerate(parts)]
        lines += [f"kept_{i} = Identity (made_{i})" for i in range(runs)]
        made = node.statements("\n".join(lines))
        for new, name in zip(made[-runs:], names.values(), strict=True):
            new.output[0] = name
        nodes += made
        columns.append(list(names.values())[:: -1 if backwards[index] else 1])
    rows: list[list[str]] = [[] for _ in range(len(body.output) - len(states))]
    for row in zip(*columns, strict=True):
        made, results = inlined(body, node, [*states, *row])
        nodes += made
        states = results[: len(states)]
        for column, name in zip(rows, results[len(states) :], strict=True):
            column.append(name)
    nodes += [
        helper.make_node("Identity", [state], [name])
        for state, name in zip(states, node.outputs, strict=False)
        if name
    ]
    out_axes = node.attributes.get("scan_output_axes") or [0] * len(rows)
    turned = node.attributes.get("scan_output_directions") or [0] * len(rows)
    for index, column in enumerate(rows):
        if node.used(len(states) + index):
            ordered = column[:: -1 if turned[index] else 1]
            nodes += stacked(node, ordered, f"y{len(states) + index}", out_axes[index])
    return Replacement(nodes, f"its body {runs} times, as {why}")


SCANS = NodeRule(
    "scans",
    "Scans over a fixed length become their body, written out, where TensorRT does not run them",
    ("Scan",),
    _rewrite,
)
