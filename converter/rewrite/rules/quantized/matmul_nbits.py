"""Rewrites onnxruntime's MatMulNBits: dequantizes weights of 2, 4 or 8 bits in blocks, then multiplies.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MatMulNBits: B is [N, blocks of
K, bytes], the first number in a byte's lowest bits; zero points are packed in the same way, or floats; 2^(bits - 1) if
there are none. From opset 21 on, where DequantizeLinear has blocks, the weights stay int4 or int8, as TensorRT takes them.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.quantized.granularity import Granularity
from trtsmith.converter.rewrite.rules.quantized.weights import blocked, unpacked


@node_rule("matmul-nbits", "com.microsoft::MatMulNBits")
def matmul_nbits_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites MatMulNBits as MatMul with weights in int4 or int8, or dequantized."""
    bits = int(node.attributes.get("bits", 4))
    if bits not in (2, 4, 8):
        return Refusal(f"it has weights of {bits} bits", "2, 4 or 8", "quantize the model to 4 bits")
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
    fault = _unfit(node, packed, scales, bits)
    if fault is not None:
        return fault
    w = Writer(node)
    weights, how = _weights(w, packed, scales, bits)
    result = w.MatMul(w.x[0], weights)
    return Replacement(w.finish(w.Add(result, w.x[5]) if node.input(5) else result), f"MatMul with {how}")


def _unfit(node: NodeView, packed: np.ndarray, scales: np.ndarray, bits: int) -> Refusal | None:
    """Refuses constants whose sizes contradict K, N and block_size."""
    rows, columns, block = (int(node.attributes[name]) for name in ("K", "N", "block_size"))
    said = f"K = {rows}, N = {columns}, block_size = {block}"
    if min(rows, columns, block) <= 0:
        return Refusal(said, "positive numbers", "correct the node where the model is exported")
    blocks = -(-rows // block)
    zeros, groups = node.constant(3), node.constant(4)
    sizes = [
        ("weights", packed.size, columns * blocks * -(-block * bits // 8)),
        ("scales", scales.size, columns * blocks),
    ]
    if zeros is not None:
        each = -(-blocks * bits // 8) if zeros.dtype == np.uint8 else blocks
        sizes.append(("zero points", zeros.size, columns * each))
    wrong = next((entry for entry in sizes if entry[1] != entry[2]), None)
    if (
        wrong is None
        and groups is not None
        and (groups.size < rows or not np.isin(groups, np.arange(blocks)).all())
    ):
        wrong = "group indices", int(groups.size), rows
    if wrong is None:
        return None
    return Refusal(
        f"{wrong[0]} of {wrong[1]} elements, for {said}",
        f"{wrong[2]} elements that fit these",
        "correct the node where the model is exported",
    )


def _weights(w: Writer, packed: np.ndarray, scales: np.ndarray, bits: int) -> tuple[Value, str]:
    """The weights [K, N] in the scales' type, and a description of them."""
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
    return w.constant(array.astype(scales.dtype)), f"dequantized weights of {bits} bits"


def _zero_points(node: NodeView, columns: int, blocks: int, bits: int) -> np.ndarray:
    """The zero points [blocks, N], int32 or float."""
    zeros = node.constant(3)
    if zeros is None:
        return np.full((blocks, columns), 2 ** (bits - 1), np.int32)
    if zeros.dtype == np.uint8:
        return np.asarray(unpacked(zeros.reshape(columns, -1), bits)[:, :blocks].astype(np.int32).T)
    return np.asarray(zeros.reshape(columns, blocks).T)
