"""Models that the rule sequences takes or refuses."""

from __future__ import annotations

from tests.rule_examples.example import Example


def _example(name: str, body: str, outputs: str, opset: int = 17) -> Example:
    return Example(
        name,
        f"""<ir_version: 8, opset_import: ["" : {opset}]>
        g (float[2, 6] x, float[2, 3] z) => ({outputs}) {{ {body} }}""",
    )


_EXAMPLES = (
    _example(
        "split, insert, erase, join",
        """
        size = Constant <value = int64 {4}> ()
        parts = SplitToSequence <axis = 1> (x, size)
        back = Constant <value = int64 {-1}> ()
        more = SequenceInsert (parts, z, back)
        last = SequenceInsert (more, z)
        first = Constant <value = int64 {0}> ()
        less = SequenceErase (last, first)
        y = ConcatFromSequence <axis = -1> (less)
        taken = SequenceAt (parts, back)
        w = Neg (taken)
        count = SequenceLength (less)
        n = Cast <to = 1> (count)
        """,
        "float[2, 8] y, float[2, 2] w, float n",
    ),
    _example(
        "rows, joined along a new axis",
        """
        rows = SplitToSequence <axis = 0, keepdims = 0> (x)
        y = ConcatFromSequence <axis = 1, new_axis = 1> (rows)
        """,
        "float[6, 2] y",
        11,
    ),
)


EXAMPLES = {"sequences": _EXAMPLES}


REFUSED: dict[str, tuple[str, ...]] = {
    "sequences": (
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2, 6] x, int64 place) => (float[2, 1] y) {
            parts = SplitToSequence <axis = 1> (x)  y = SequenceAt (parts, place)
        }""",
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2, 2147483647] x) => (int64 y) { parts = SplitToSequence <axis = 1> (x)  y = SequenceLength (parts) }""",
    ),
}
