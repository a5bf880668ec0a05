"""Models that the rule product-activations takes: gates between a convolution and an activation."""

from __future__ import annotations

from tests.rule_examples.example import Example

_TEXT = """<ir_version: 9, opset_import: ["" : OPSET]>
g (float[2, 3, 6, 5] x, float[2, 4, 6, 5] r, float[4, 3, 1, 1] k, float[4, 4, 1, 1] v) => (float[2, 4, 6, 5] y)
<float zero = {0.0}> { c = Conv (x, k) BODY }"""

_GATE = "p = GlobalAveragePool (c) q = Conv (p, v) g = Sigmoid (q) z = Mul (c, g)"


def _example(name: str, body: str, opset: int = 18) -> Example:
    return Example(name, _TEXT.replace("OPSET", str(opset)).replace("BODY", body))


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "product-activations": (
        _example("Relu of a gate of channels", f"{_GATE} y = Relu (z)"),
        _example("Relu of a gate, of an early opset", f"{_GATE} y = Relu (z)", 10),
        _example("the maximum of a gate and zero", f"{_GATE} y = Max (zero, z)"),
        _example("Relu of a product with a tensor", "z = Mul (r, c) y = Relu (z)"),
        _example("Relu before the product, too", "a = Add (c, r) b = Relu (a) z = Mul (b, r) y = Relu (z)"),
        _example("Abs", "z = Mul (r, c) y = Abs (z)"),
        _example("Tanh", "z = Mul (r, c) y = Tanh (z)"),
        _example("Erf", "z = Mul (r, c) y = Erf (z)"),
        _example("Celu", "z = Mul (r, c) y = Celu <alpha = 0.5> (z)"),
    )
}
