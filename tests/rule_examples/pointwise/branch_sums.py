"""Models that the rule branch-sums takes: the first block of a ResNet's stage."""

from __future__ import annotations

from tests.rule_examples.example import Example

_TEXT = """<ir_version: 9, opset_import: ["" : 18]>
g (float[2, 3, 6, 5] x, float[4, 3, 1, 1] k, float[3, 3, 3, 3] m, float[4, 3, 1, 1] v, float[4] s, float[4] b) =>
(float[2, 4, 6, 5] y) <float[4] means = {0.1, -0.1, 0.3, 0.0}, float[4] spreads = {1.0, 0.5, 2.0, 1.0},
 float[4,1,1] scale = {2.0, 0.5, 1.0, 3.0}, float[4,1,1] shift = {0.1, 0.2, 0.3, 0.4}> {
 o = Conv <pads = [1, 1, 1, 1]> (x, m) r = Relu (o) c = Conv (r, v) BODY t = Add (c, d) y = Relu (t) }"""


def _example(name: str, body: str) -> Example:
    return Example(name, _TEXT.replace("BODY", body))


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "branch-sums": (
        _example("a convolution beside two", "d = Conv (x, k)"),
        _example("with a norm", "u = Conv (x, k) d = BatchNormalization (u, s, b, means, spreads)"),
        _example("with a frozen norm", "u = Conv (x, k) n = Mul (u, scale) d = Add (n, shift)"),
    )
}
