"""onnxruntime's MatMulNBits: weights of 2, 4 or 8 bits in blocks, dequantised, then a MatMul.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MatMulNBits: B is [N, blocks of
K, bytes], the first number in a byte's lowest bits; zero points are packed in the same way, or floats; 2^(bits - 1) if
there are none. From opset 21 on, where DequantizeLinear has blocks, the weights stay int4 or int8, as TensorRT takes them.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import Example, NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import Writer
from trtsmith.converter.rewrite.rules.quantized.granularity import Granularity
from trtsmith.converter.rewrite.rules.quantized.weights import blocked, unpacked


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    bits = int(node.attributes.get("bits", 4))
    if bits not in (2, 4, 8):
        return Refusal(f"it has weights of {bits} bits", "2, 4 or 8", "quantise the model to 4 bits")
    if node.attributes.get("weight_prepacked"):
        return Refusal(
            "its weights are laid out for one kind of GPU (weight_prepacked)",
            "weights in the operator's own layout",
            "save the model without prepacked weights",
        )
    packed, scales = node.constant(1), node.constant(2)
    fed = [node.input(i) for i in (1, 2, 3, 4) if node.input(i) and not node.is_constant(i)]
    if fed or packed is None or scales is None:
        return Refusal(
            f"{', '.join(map(repr, fed))} is computed at run time",
            "constant weights, scales and zero points",
            "make them initializers of the model",
        )
    w = Writer(node)
    weights, how = _weights(w, packed, scales, bits)
    if node.input(5):
        w.do("Add", w.do("MatMul", "x0", weights), "x5", result="y0")
    else:
        w.do("MatMul", "x0", weights, result="y0")
    return Replacement(w.nodes(), f"MatMul with {how}")


def _weights(w: Writer, packed: np.ndarray, scales: np.ndarray, bits: int) -> tuple[str, str]:
    """The weights [K, N] in the scales' type, and what they are."""
    node = w.node
    rows, columns = int(node.attributes["K"]), int(node.attributes["N"])
    block = int(node.attributes["block_size"])
    blocks = -(-rows // block)
    numbers = unpacked(packed.reshape(columns, -1), bits)[:, :rows].astype(np.int32).T  # [K, N]
    scale = scales.reshape(columns, blocks).T  # [blocks, N]
    groups = node.constant(4)
    of_block = np.arange(rows) // block if groups is None else groups[:rows]
    zeros = _zero_points(node, columns, blocks, bits)
    if np.issubdtype(zeros.dtype, np.integer):
        grain = Granularity("block", 2, 0, rows, block)
        steps = numbers - zeros[of_block]
        if groups is None:
            return blocked(w, steps, scale, grain, bits)
    else:
        steps = numbers - zeros.astype(np.float32)[of_block]
    array = steps.astype(np.float32) * scale.astype(np.float32)[of_block]
    return w.const(array.astype(scales.dtype)), f"dequantised weights of {bits} bits"


def _zero_points(node: NodeView, columns: int, blocks: int, bits: int) -> np.ndarray:
    """[blocks, N], int32 or float."""
    zeros = node.constant(3)
    if zeros is None:
        return np.full((blocks, columns), 2 ** (bits - 1), np.int32)
    if zeros.dtype == np.uint8:
        return np.asarray(unpacked(zeros.reshape(columns, -1), bits)[:, :blocks].astype(np.int32).T)
    return np.asarray(zeros.reshape(columns, blocks).T)


_RNG = np.random.default_rng(11)


def _listed(array: np.ndarray) -> str:
    return ", ".join(str(value) for value in array.reshape(-1).tolist())


def _example(name: str, opset: int, k: int, bits: int, zeros: str = "", more: str = "") -> Example:
    """Weights of 3 columns in blocks of 16, scales of both signs."""
    blocks = -(-k // 16)
    packed = _RNG.integers(0, 256, (3, blocks, 2 * bits), np.uint8)
    scales = _RNG.choice([-0.25, 0.5, 0.125], (3, blocks))
    return Example(
        name,
        f"""<ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1]>
        g (float[2, {k}] x) => (float[2, 3] y)
        <uint8[3, {blocks}, {2 * bits}] w = {{{_listed(packed)}}}, float[3, {blocks}] s = {{{_listed(scales)}}}{zeros}> {{
            y = com.microsoft.MatMulNBits <K = {k}, N = 3, bits = {bits}, block_size = 16> (x, w, s{more})
        }}""",
        rtol=1e-5,
        atol=1e-4,
    )


_ZEROS = ", uint8[3, 1] z = {147, 44, 200}"

_EXAMPLES = (
    _example("int4 as it is", 21, 32, 4),
    _example("zero points, int8", 21, 32, 4, _ZEROS, ", z"),
    _example("before blocks, and a bias", 17, 32, 4, _ZEROS + ", float[3] b = {1.0, -2.0, 3.0}", ", z, , b"),
    _example("a short block", 21, 40, 4),
    _example("8 bits", 21, 32, 8),
    _example("2 bits", 21, 32, 2),
    _example("zero points of float", 21, 32, 4, ", float[3, 2] z = {7.5, 8.0, 3.25, 1.0, 0.0, 15.0}", ", z"),
)

MATMUL_NBITS = NodeRule(
    "matmul-nbits",
    "MatMulNBits becomes MatMul with weights in int4 or int8, or dequantised",
    ("com.microsoft::MatMulNBits",),
    _rewrite,
    _EXAMPLES,
)
