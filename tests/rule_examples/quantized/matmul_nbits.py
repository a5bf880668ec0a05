"""Models that the rule matmul-nbits takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

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


EXAMPLES = {"matmul-nbits": _EXAMPLES}
