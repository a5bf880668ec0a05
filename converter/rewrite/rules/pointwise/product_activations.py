"""Rewrites some activations of a product with a convolution's result, in float32, for TensorRT-RTX.

TensorRT-RTX 1.6.1 fuses Relu (c * r) with the convolution that made c, and writes other numbers, for r of the same shape and
for a gate of each channel or pixel: all elements were off on an H200, with and without a bias, for depthwise, transposed and
1-D convolutions, and with an Add, a Relu or a Sigmoid between convolution and product. So it does with Abs, Celu, Erf, Tanh
and Max (c * r, 0). Other activations there are right, Clip and Elu among them, and so are products of matrices, sums and
quotients before a Relu, products with constants, as in a GELU, and float16. A Neg between product and activation keeps them
apart.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.target import Fault

_FAULT = Fault(
    "tensorrt_rtx",
    ("1.6.1",),
    "computes some activations of a product with a convolution's result wrongly in float32",
    "engines of single layers run on an H200",
)

_CONVOLUTIONS = ("Conv", "ConvTranspose")

_BETWEEN = 4
"""Operators between convolution and product that are looked through. The new forms are as good where nothing is fused."""


@node_rule("product-activations", "Abs", "Celu", "Erf", "Max", "Relu", "Tanh", faults=(_FAULT,))
def product_activations_rule(node: NodeView) -> Replacement | None:
    """Rewrites Abs, Celu, Erf, Relu and Tanh of a product with a convolution's result."""
    index = _beside_zero(node) if node.is_a("Max") else 0
    product = None if index is None else node.maker(index)
    if index is None or product is None or node.dtype(index) != "float32" or not product.is_a("Mul"):
        return None
    if any(product.is_constant(i) for i in (0, 1)) or not _is_convolved(product):
        return None
    w = Writer(node)
    return Replacement(
        w.finish(_otherwise(node, w, w.x[index])),
        "another form of the same function",
        notes=(node.because((_FAULT,), "it is written in another form"),),
    )


def _beside_zero(node: NodeView) -> int | None:
    """The input x of Max (x, 0); None for another Max."""
    if len(node.inputs) != 2:
        return None
    numbers = {i: value for i in (0, 1) if (value := node.constant(1 - i)) is not None and value.size == 1}
    return next((i for i, value in numbers.items() if not value.any()), None)


def _is_convolved(product: NodeView) -> bool:
    """Whether a factor comes from a convolution through at most _BETWEEN operators."""
    reached = [product]
    for _ in range(_BETWEEN + 1):
        names = dict.fromkeys(name for node in reached for name in node.inputs)
        reached = [maker for name in names if (maker := product.maker_of(name)) is not None]
        if any(maker.is_a(*_CONVOLUTIONS) for maker in reached):
            return True
    return False


def _otherwise(node: NodeView, w: Writer, product: Value) -> Value:
    """The activation's result, by other operators."""
    if node.is_a("Relu", "Max"):
        return w.clip(product, 0.0, None, "float32")
    if node.is_a("Abs"):
        return w.Abs(w.Neg(product))
    if node.is_a("Celu"):  # alpha * Elu (x / alpha), from its definition
        alpha = float(node.attributes["alpha"])
        return w.Mul(w.Elu(w.Mul(product, 1 / alpha)), alpha)
    return w.Neg(w.write(node.op_type, w.Neg(product)))  # odd functions
