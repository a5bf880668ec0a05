"""The smallest graphs that a profile decides: each with its ranges and the expected result."""

from dataclasses import dataclass

import onnx


@dataclass(frozen=True)
class ProfileCase:
    """shapes: as --shapes takes them. records: operators of the records, in order. gone: operators that are not left over.

    left: operators that have to be there still. values: as --values takes them. build: whether TensorRT builds it in the
    tests.
    """

    name: str
    signature: str
    body: str
    shapes: tuple[str, ...]
    records: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    build: bool = True
    opset: int = 17

    def proto(self) -> onnx.ModelProto:
        head = f'<ir_version: 8, opset_import: ["" : {self.opset}, "com.microsoft" : 1]>'
        return onnx.parser.parse_model(f"{head} g {self.signature} {{ {self.body} }}")


_CONSTANTS = """
    zero = Constant <value = int64 {0}> ()  one = Constant <value = int64 {1}> ()  two = Constant <value = int64 {2}> ()
    last = Constant <value = int64[1] {-1}> ()  none = Constant <value = int64[1] {0}> ()
    ones = Constant <value = int64[1] {1}> ()  true = Constant <value = bool {1}> ()
"""

_ON_WIDTH = f"""{_CONSTANTS}
    w = Constant <value = float[2, 3, 1, 3] {{{", ".join(["0.5"] * 18)}}}> ()
    c = Conv (x, w)
    shape = Shape (c)
    width = Gather (shape, last)
    is_one = Equal (width, ones)
    y = If (is_one) <
        then_branch = t () => (float[a, b, d] r) {{ r = Squeeze (c, last) }},
        else_branch = e () => (float[a, b, d, f] s) {{ s = Relu (c) }}
    >
"""

_ON_FUSED_WIDTH = _ON_WIDTH.replace(
    "c = Conv (x, w)", 'c = com.microsoft.FusedConv <activation = "Relu"> (x, w)'
)

_ON_RANK = f"""{_CONSTANTS}
    k = Cast <to = 7> (two)
    n = Relu (x)
    shape = Shape (n)
    rank = Size (shape)
    flat = Equal (rank, k)
    y = If (flat) <
        then_branch = t () => (float[a, b, c] r) {{ r = Unsqueeze (n, none) }},
        else_branch = e () => (float[d, f, g, h] s) {{ s = Unsqueeze (n, last) }}
    >
"""

_BATCH_IS_POSITIVE = f"""{_CONSTANTS}
    shape = Shape (x)
    batch = Gather (shape, zero)
    some = Greater (batch, zero)
    y = If (some) <
        then_branch = t () => (float[a, b] r) {{ r = Relu (x) }},
        else_branch = e () => (float[c] s) {{ s = ReduceSum <keepdims = 0> (x, none) }}
    >
"""

_NESTED = f"""{_CONSTANTS}
    shape = Shape (x)
    length = Gather (shape, one)
    double = Mul (length, two)
    even = Mod (double, two)
    is_even = Equal (even, zero)
    long = Greater (length, one)
    y = If (is_even) <
        then_branch = t () => (float[a, b] r) {{
            r = If (long) <
                then_branch = tt () => (float[a, b] p) {{ p = Neg (x) }},
                else_branch = te () => (float[a] q) {{ q = Squeeze (x, ones) }}
            >
        }},
        else_branch = e () => (float[a, b, c] s) {{ s = Unsqueeze (x, none) }}
    >
"""

_LOOP = f"""{_CONSTANTS}
    shape = Shape (x)
    runs = Gather (shape, one)
    y = Loop (runs, true, x) <
        body = b (int64 i, bool before, float[a, b] state) => (bool after, float[c, d] next) {{
            after = Identity (before)
            inner = Shape (state)
            width = Gather (inner, one)
            wide = Greater (width, one)
            next = If (wide) <
                then_branch = t () => (float[a, b] p) {{ p = Add (state, state) }},
                else_branch = e () => (float[a] q) {{ q = Squeeze (state, ones) }}
            >
        }}
    >
"""

_AT_MOST_3 = """
    s = Shape (x)  i = Constant <value_int = 1> ()  n = Gather (s, i)
    least = Constant <value_int = 1> ()  most = Constant <value_int = 3> ()  k = Clip (n, least, most)
    axes = Constant <value_ints = [0]> ()  count = Unsqueeze (k, axes)  best, place = TopK (x, count)
    all = Constant <value_ints = [-1]> ()  y = Reshape (best, all)
"""

CASES = (
    ProfileCase(
        "squeeze without axes, a batch of 1",
        "(float[N, 3, L] x) => (float[a, b] y)",
        "c = Relu (x)  y = Squeeze (c)",
        ("x=1x3x2:1x3x4:1x3x8",),
        ("Squeeze",),
    ),
    ProfileCase(
        "squeeze without axes, a dynamic batch that is never 1",
        "(float[N, 1, L] x) => (float[a, b] y)",
        "c = Relu (x)  y = Squeeze (c)",
        ("x=2x1x2:3x1x4:4x1x8",),
        ("Squeeze",),
    ),
    ProfileCase(
        "squeeze without axes, before opset 13",
        "(float[N, 3, L] x) => (float[a, b] y)",
        "c = Relu (x)  y = Squeeze (c)",
        ("x=1x3x4",),
        ("Squeeze",),
        opset=11,
    ),
    ProfileCase(
        "a branch by the width of a convolution",
        "(float[N, 3, 4, W] x) => (float[a, b, c] y)",
        _ON_WIDTH,
        ("x=1x3x4x3:2x3x4x3:4x3x4x3",),
        ("If",),
        gone=("If", "Shape", "Equal"),
        left=("Squeeze",),
    ),
    ProfileCase(
        "a branch by a size behind an operator that a rule writes as standard ones",
        "(float[N, 3, 4, W] x) => (float[a, b, c] y)",
        _ON_FUSED_WIDTH,
        ("x=1x3x4x3:2x3x4x3:4x3x4x3",),
        ("If",),
        gone=("If", "FusedConv"),
        left=("Squeeze",),
    ),
    ProfileCase(
        "the other branch, as the width is never 1",
        "(float[N, 3, 4, W] x) => (float[a, b, c, d] y)",
        _ON_WIDTH,
        ("x=1x3x4x4:2x3x4x6:4x3x4x9",),
        ("If",),
        gone=("If", "Squeeze"),
    ),
    ProfileCase(
        "as many of the best as there are, but no more than 3",
        "(float[N, L] x) => (float[a] y)",
        _AT_MOST_3,
        ("x=1x5:2x6:4x9",),
        ("Unsqueeze",),
        gone=("Clip", "Shape", "Gather"),
    ),
    ProfileCase(
        "a branch by a rank",
        "(float[N, L] x) => (float[a, b, c] y)",
        _ON_RANK,
        ("x=1x2:2x4:4x8",),
        ("If",),
        gone=("If", "Size"),
    ),
    ProfileCase(
        "a branch by a batch that is not empty",
        "(float[N, L] x) => (float[a, b] y)",
        _BATCH_IS_POSITIVE,
        ("x=1x2:2x4:4x8",),
        ("If",),
        gone=("If", "Greater"),
    ),
    ProfileCase(
        "nested branches, one decided by a multiple",
        "(float[N, L] x) => (float[a, b] y)",
        _NESTED,
        ("x=1x2:2x4:4x8",),
        ("If", "If"),
        gone=("If", "Mod"),
    ),
    ProfileCase(
        "a trip count, and a branch in every run",
        "(float[N, L] x) => (float[a, b] y)",
        _LOOP,
        ("x=1x3:2x3:4x3",),
        ("Gather", "If"),
        left=("Loop",),
    ),
    ProfileCase(
        "a target of -1 where exporters ask for the size",
        "(float[N, L] x) => (float[a, b, c] y)",
        f"""{_CONSTANTS}
        three = Constant <value = int64[1] {{3}}> ()
        axis = Constant <value = int64[1] {{2}}> ()
        shape = Shape (x)
        target = Concat <axis = 0> (shape, last)
        minus = Equal (target, last)
        filled = ConstantOfShape <value = int64[1] {{1}}> (three)
        chosen = Where (minus, filled, target)
        u = Unsqueeze (x, axis)
        y = Expand (u, chosen)""",
        ("x=2x3",),
        ("Where",),
        gone=("Where", "Shape"),
    ),
    ProfileCase(
        "heads of a dynamic batch",
        "(float[N, L, 8] x) => (float[a, b, c, d] y)",
        f"""{_CONSTANTS}
        heads = Constant <value = int64[1] {{2}}> ()
        shape = Shape (x)
        batch = Gather (shape, none)
        length = Gather (shape, ones)
        width = Gather (shape, last)
        each = Div (width, heads)
        target = Concat <axis = 0> (batch, length, heads, each)
        y = Reshape (x, target)""",
        ("x=1x2x8:2x4x8:4x8x8",),
        ("Div", "Reshape"),
        gone=("Shape", "Concat", "Div"),
    ),
    ProfileCase(
        "a mask by positions",
        "(float[N, L] x) => (float[a, b] y)",
        f"""{_CONSTANTS}
        shape = Shape (x)
        length = Gather (shape, one)
        positions = Range (zero, length, one)
        p = Cast <to = 1> (positions)
        y = Add (x, p)""",
        ("x=1x4:2x4:4x4",),
        ("Cast",),
        gone=("Range", "Shape"),
    ),
    ProfileCase(
        "a bound of non-maximum suppression",
        "(float[1, K, 4] boxes, float[1, 1, K] scores) => (int64[a, b] y)",
        f"""{_CONSTANTS}
        shape = Shape (scores)
        most = Gather (shape, last)
        overlap = Constant <value = float[1] {{0.5}}> ()
        y = NonMaxSuppression (boxes, scores, most, overlap)""",
        ("boxes=1x6x4", "scores=1x1x6"),
        ("Gather",),
        gone=("Shape",),
        build=False,
    ),
    ProfileCase(
        "more indices than rows",
        "(float[N, 3] x, int64[M, 3] i, float[M, 3] u) => (float[a, b] y)",
        "r = Relu (x)  y = ScatterElements <axis = 0> (r, i, u)",
        ("x=2x3", "i=4x3", "u=4x3"),
        ("ScatterElements",),
        gone=("ScatterElements",),
    ),
    ProfileCase(
        "more indices than rows, of a number that ranges",
        "(float[N, 3] x, int64[M, 3] i, float[M, 3] u) => (float[a, b] y)",
        "r = Relu (x)  y = ScatterElements <axis = 0> (r, i, u)",
        ("x=2x3:3x3:3x3", "i=4x3:5x3:6x3", "u=4x3:5x3:6x3"),
        ("ScatterElements",),
        gone=("ScatterElements",),
    ),
    ProfileCase(
        "no more indices than rows, of a number that ranges",
        "(float[N, 3] x, int64[M, 3] i, float[M, 3] u) => (float[a, b] y)",
        "r = Relu (x)  y = ScatterElements <axis = 0> (r, i, u)",
        ("x=2x3:4x3:8x3", "i=1x3:3x3:7x3", "u=1x3:3x3:7x3"),
        left=("ScatterElements",),
    ),
    ProfileCase(
        "floats in the arithmetic of sizes",
        "(float[1, 2, H, W] x) => (float[a, b, c, d] y)",
        f"""{_CONSTANTS}
        shape = Shape <start = 2> (x)
        f = Cast <to = 1> (shape)
        scale = Constant <value = float {{2}}> ()
        g = Mul (f, scale)
        floor = Floor (g)
        sizes = Cast <to = 7> (floor)
        rest = Constant <value = int64[2] {{1, 2}}> ()
        all = Concat <axis = 0> (rest, sizes)
        y = Resize <mode = "nearest"> (x, , , all)""",
        ("x=1x2x4x5",),
        ("Concat",),
        gone=("Floor", "Cast"),
    ),
    ProfileCase(
        "a value of a shape tensor that decides a branch",
        "(float[N, L] x, int64 n) => (float[a, b] y)",
        f"""{_CONSTANTS}
        some = Greater (n, zero)
        y = If (some) <
            then_branch = t () => (float[a, b] r) {{ r = Relu (x) }},
            else_branch = e () => (float[a] s) {{ s = ReduceSum <keepdims = 0> (x, ones) }}
        >""",
        ("x=1x2:2x4:4x8",),
        ("If",),
        gone=("If",),
        values=("n=1:2:8",),
        build=False,
    ),
)
