"""SequenceMap over static sequences: the body once for each position."""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import Example, NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import Writer
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
    results: list[list[str]] = [[] for _ in node.outputs]
    for row in zip(*columns, strict=True):
        outputs = w.graph(node.graph("body"), [w.value(name) for name in row])
        for column, name in zip(results, outputs, strict=True):
            column.append(name)
    for index, column in enumerate(results):
        w.do("SequenceConstruct" if column else "SequenceEmpty", *column, result=f"y{index}")
    return Replacement(w.nodes(), f"its body {len(first)} times")


_EXAMPLES = (
    Example(
        "two sequences and a tensor",
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2, 6] x, float[2, 3] z) => (float[4, 3] y, float[2, 2, 3] w) {
        empty = SequenceEmpty ()
        one = SequenceInsert (empty, z)
        two = SequenceInsert (one, z)
        sizes = Constant <value = int64[2] {3, 3}> ()
        parts = SplitToSequence <axis = 1> (x, sizes)
        sums, kept = SequenceMap (two, parts, z) <
            body = b (float[2, 3] a, float[2, 3] c, float[2, 3] d) => (float[2, 3] s, float[2, 3] k) {
                p = Add (a, c)  s = Mul (p, d)  k = Identity (a)
            }
        >
        y = ConcatFromSequence <axis = 0> (sums)
        w = ConcatFromSequence <axis = 0, new_axis = 1> (kept)
        }""",
    ),
)

SEQUENCE_MAP = NodeRule(
    "sequence-map",
    "SequenceMap over static sequences becomes its body, once for each position",
    ("SequenceMap",),
    _rewrite,
    _EXAMPLES,
)
