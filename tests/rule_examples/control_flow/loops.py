"""Models that the rule loops takes or refuses."""

from __future__ import annotations

from tests.rule_examples.example import Example


def _example(name: str, body: str, outputs: str, opset: int = 17) -> Example:
    return Example(
        name,
        f"""<ir_version: 8, opset_import: ["" : {opset}]>
        g (float[5, 4] x, float[1, 4] z) => ({outputs}) {{
            three = Constant <value = int64 {{3}}> ()
            yes = Constant <value = bool {{1}}> ()
            zero = Constant <value = int64[1] {{0}}> ()
            one = Constant <value = int64[1] {{1}}> ()
            {body}
        }}""",
    )


_EXAMPLES = (
    _example(
        "a slice at the iteration's number, and what is collected",
        """
        y, w = Loop (three, yes, z) <body = b (int64 i, bool c, float[1, 4] s) => (bool d, float[1, 4] r, float[1, 4] q) {
            d = Identity (c)
            start = Unsqueeze (i, zero)
            end = Add (start, one)
            row = Slice (x, start, end, zero)
            r = Add (s, row)
            q = Sin (r)
        }>
        """,
        "float[1, 4] y, float[3, 1, 4] w",
    ),
    _example(
        "a state that grows",
        """
        y = Loop (three, yes, z) <body = b (int64 i, bool c, float[rows, 4] s) => (bool d, float[more, 4] r) {
            d = Constant <value = bool {1}> ()
            r = Concat <axis = 0> (s, x)
        }>
        """,
        "float[16, 4] y",
    ),
    _example(
        "a sequence",
        """
        empty = SequenceEmpty ()
        rows = Loop (three, , empty) <body = b (int64 i, bool c, seq(float[4]) s) => (bool d, seq(float[4]) r) {
            d = Identity (c)
            row = Gather (x, i)
            other = Neg (row)
            r = SequenceInsert (s, other)
        }>
        y = ConcatFromSequence <axis = 0, new_axis = 1> (rows)
        """,
        "float[3, 4] y",
    ),
    _example(
        "a condition that counts, and what is collected",
        """
        most = Constant <value = int64 {9223372036854775807}> ()  k0 = Constant <value = int64 {0}> ()
        step = Constant <value = int64 {1}> ()  k9, y, w = Loop (most, yes, k0, z) <
            body = b (int64 i, bool c, int64 k, float[1, 4] s) => (bool d, int64 k1, float[1, 4] r, float[1, 4] q) {
                k1 = Add (k, step)  d = Less (k1, three)
                start = Unsqueeze (k, zero)  end = Add (start, one)
                row = Slice (x, start, end, zero)
                r = Add (s, row)  q = Sin (r)
            }
        >
        """,
        "float[1, 4] y, float[3, 1, 4] w",
    ),
    _example(
        "a condition that data decide, and what is collected",
        """
        most = Constant <value = int64 {6}> ()  bound = Constant <value = float {0.5}> ()
        y, all = Loop (most, yes, z) <
            body = b (int64 i, bool c, float[1, 4] s) => (bool d, float[1, 4] r, float[1, 4] q) {
                half = Constant <value = float {0.5}> ()
                r = Mul (s, half)  size = ReduceL2 <keepdims = 0> (r)  d = Greater (size, bound)  q = Identity (r)
            }
        >
        w = ReduceSum <keepdims = 0> (all, zero)
        """,
        "float[1, 4] y, float[1, 4] w",
    ),
    _example(
        "what is appended to a state without rows",
        """
        none = Constant <value = float[0, 4] {}> ()
        y, w = Loop (three, yes, none, z) <
            body = b (int64 i, bool c, float[k, 4] s, float[1, 4] t) => (bool d, float[l, 4] r, float[1, 4] u) {
            d = Identity (c)
            row = Gather (x, i)
            other = Sin (row)
            more = Unsqueeze (other, zero)
            same = Cast <to = 1> (s)
            r = Concat <axis = 0> (same, more)
            u = Add (t, more)
        }>
        """,
        "float[3, 4] y, float[1, 4] w",
    ),
    _example(
        "a first value of any shape, of a state that each run makes as another, without the Add of 0 between both",
        """
        none = Constant <value = float {0}> ()
        y, w = Loop (three, yes, none, z) <
            body = b (int64 i, bool c, float[1, 4] s, float[1, 4] t) => (bool d, float[1, 4] r, float[1, 4] u) {
            d = Identity (c)
            r = Sin (t)
            wide = Unsqueeze (r, zero)
            u = Squeeze (wide, zero)
        }>
        """,
        "float[1, 4] y, float[1, 4] w",
    ),
    _example(
        "no condition",
        """
        y = Loop (three, , z) <body = b (int64 i, bool c, float[1, 4] s) => (bool d, float[1, 4] r) {
            d = Identity (c)
            r = Sin (s)
        }>
        """,
        "float[1, 4] y",
        13,
    ),
)


EXAMPLES = {"loops": _EXAMPLES}


REFUSED: dict[str, tuple[str, ...]] = {
    "loops": (
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[4] x, int64 n) => (float[4] y) {
            yes = Constant <value = bool {1}> ()
            y = Loop (n, yes, x) <body = b (int64 i, bool c, float[4] s) => (bool d, float[4] r) {
                d = Identity (c)
                end = Constant <value = int64[1] {4}> ()
                zero = Constant <value = int64[1] {0}> ()
                start = Reshape (i, end)
                r = Slice (s, start, end, zero)
            }>
        }""",
    ),
}
