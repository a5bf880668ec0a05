"""Unrolls SequenceMap over static sequences: the body once for each position."""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.sequences.sequence_values import elements, is_sequence


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    """What is no sequence is the same each time."""
    first = elements(node, node.input(0))
    if isinstance(first, Refusal):
        return first
    columns = [first]
    for index in range(1, len(node.inputs)):
        held = (
            elements(node, node.input(index)) if is_sequence(node.type_proto(index)) else [node.input(index)]
        )
        if isinstance(held, Refusal):
            return held
        columns.append(held if is_sequence(node.type_proto(index)) else held * len(first))
    if len({len(column) for column in columns}) > 1:
        fix = "give sequences of one length"
        return Refusal(f"sequences of {', '.join(str(len(c)) for c in columns)} tensors", "one length", fix)
    w = Writer(node)
    results: list[list[Value]] = [[] for _ in node.outputs]
    for row in zip(*columns, strict=True):
        outputs = w.inline(node.graph("body"), [w.value(name) for name in row])
        for column, name in zip(results, outputs, strict=True):
            column.append(name)
    made = [w.write("SequenceConstruct" if c else "SequenceEmpty", *c) for c in results]
    return Replacement(w.finish(*made), f"its body {len(first)} times")


SEQUENCE_MAP = NodeRule(
    "sequence-map",
    "SequenceMap over static sequences becomes its body, once for each position",
    ("SequenceMap",),
    _rewrite,
)
