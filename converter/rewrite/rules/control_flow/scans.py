"""Unrolls Scans over a fixed length that TensorRT does not run as they are."""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.control_flow.loop_bodies import obstacle


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
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


SCANS = NodeRule(
    "scans",
    "Scans over a fixed length become their body, written out, where TensorRT does not run them",
    ("Scan",),
    _rewrite,
)
