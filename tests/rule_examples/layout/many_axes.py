"""Models that the rule many-axes takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example


def _example(
    name: str, ends: str, constants: str, body: str, opset: int = 17, feed: tuple[int, ...] = ()
) -> Example:
    text = f"""<ir_version: 8, opset_import: ["" : {opset}]> g ({ends.replace(">", ") => (")})
        <{constants}> {{ {body} }}"""
    numbers = np.arange(np.prod(feed), dtype=np.float32).reshape(feed)
    return Example(name, text, feeds={"x": numbers} if feed else None)


_WINDOWS = "perm = [0, 2, 4, 6, 1, 3, 5, 7, 8]"
_NINE = "int64[9] nine = {{{}, 2, 2, 2, 3, 2, 2, 3, {}}}"

_EXAMPLES = (
    _example(
        "time, height and width in windows, an axis of one",
        "float16[1, 2, 4, 6, 6] x > float16[1, 12, 24] y",
        f"{_NINE.format(1, 1)}, int64[3] three = {{1, -1, 24}}",
        f"a = Reshape (x, nine) b = Transpose <{_WINDOWS}> (a) y = Reshape (b, three)",
    ),
    _example(
        "any batch, copied from an axis that moved; two transposes, functions",
        "float[n, 4, 4, 6, 6] x > float[2, m, 3] y",
        f"{_NINE.format(0, 2)}, int64[3] three = {{0, -1, 0}}, float two = {{2.0}}",
        f"""a = Reshape (x, nine) b = Transpose <{_WINDOWS}> (a) r = Relu (b) s = Mul (r, two)
            c = Transpose <perm = [8, 0, 4, 2, 3, 5, 7, 6, 1]> (s) y = Reshape (c, three)""",
        feed=(3, 4, 4, 6, 6),
    ),
    _example(
        "no two axes of ten stay neighbours",
        "int64[4, 4, 4, 4, 4] x > int64[32, 32] y",
        "int64[10] ten = {2, 2, 2, 2, 2, 2, 2, 2, 2, 2}, int64[2] two = {32, 32}",
        "a = Reshape (x, ten) b = Transpose <perm = [9, 4, 2, 0, 7, 5, 3, 1, 8, 6]> (a) y = Reshape (b, two)",
        opset=9,
    ),
    _example(
        "sizes that the graph computes",
        "float[n, 2, h, 6, 2] x > float[k, l] y",
        """int64[1] two = {2}, int64[1] three = {3}, int64[1] one = {1}, int64[1] zero = {0}, int64[1] third = {2},
        int64[1] rest = {-1}, int64[2] join = {-1, 24}""",
        """s = Shape (x) n1 = Gather (s, zero) h1 = Gather (s, third) h2 = Div (h1, two)
            nine = Concat <axis = 0> (n1, two, one, h2, two, three, two, rest, one)
            a = Reshape (x, nine) b = Transpose <perm = [3, 0, 5, 1, 4, 6, 2, 7, 8]> (a) y = Reshape (b, join)""",
        feed=(3, 2, 4, 6, 2),
    ),
    _example(
        "an axis of unknown size that the last Reshape copies",
        "float[n, 4, 4, 4, 2] x > float[a, b, c] y",
        "int64[9] nine = {-1, 2, 2, 2, 2, 2, 2, 1, 2}, int64[3] join = {0, 4, -1}",
        "a = Reshape (x, nine) b = Transpose <perm = [0, 8, 6, 4, 2, 7, 5, 3, 1]> (a) y = Reshape (b, join)",
        feed=(3, 4, 4, 4, 2),
    ),
    _example(
        "axes that Unsqueeze adds",
        "float[n, 2, 3, k, 2, 2, 2] x > float[a, b] y",
        "int64[2] added = {0, 8}, int64[2] join = {12, -1}",
        """u = Unsqueeze (x, added) b = Transpose <perm = [8, 3, 1, 2, 5, 4, 7, 6, 0]> (u) y = Reshape (b, join)""",
        feed=(2, 2, 3, 4, 2, 2, 2),
    ),
)

EXAMPLES: dict[str, tuple[Example, ...]] = {"many-axes": _EXAMPLES}

REFUSED: dict[str, tuple[str, ...]] = {
    "many-axes": (
        """<ir_version: 8, opset_import: ["" : 17]> g (float[2, 4, 4, 4, 2] x) => (float[16, 16] y)
        <int64[9] nine = {2, 2, 2, 2, 2, 2, 2, 2, 1}, int64[2] join = {16, 16}> {
            a = Reshape (x, nine) b = Transpose <perm = [8, 6, 4, 2, 0, 7, 5, 3, 1]> (a)
            s = Softmax <axis = 3> (b) y = Reshape (s, join) }""",
        """<ir_version: 8, opset_import: ["" : 17]> g (float[2, 1, 2, 1, 2, 1, 2, 1, 2] x) => (float[4, 8] y)
        <int64[2] join = {4, 8}> {
            b = Transpose <perm = [8, 6, 4, 2, 0, 7, 5, 3, 1]> (x) y = Reshape (b, join) }""",
        """<ir_version: 8, opset_import: ["" : 17]> g (float[n, 4, h, 8, 2] x) => (float[k, l] y)
        <int64[1] two = {2}, int64[1] zero = {0}, int64[1] rest = {-1}, int64[2] join = {0, -1}> {
            s = Shape (x) n1 = Gather (s, zero)
            nine = Concat <axis = 0> (n1, two, two, rest, two, two, two, two, two)
            a = Reshape (x, nine) b = Transpose <perm = [3, 0, 2, 1, 8, 4, 6, 5, 7]> (a) y = Reshape (b, join) }""",
    ),
}
