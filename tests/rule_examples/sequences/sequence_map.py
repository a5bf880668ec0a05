"""Models that the rule sequence-map takes."""

from __future__ import annotations

from tests.rule_examples.example import Example

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


EXAMPLES = {"sequence-map": _EXAMPLES}
