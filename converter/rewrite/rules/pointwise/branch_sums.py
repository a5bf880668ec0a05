"""Rewrites the sum of two convolutions' results in float32 as a difference, for TensorRT-RTX.

ResNets add a convolution of their input to the result of a block. TensorRT-RTX 1.6.1 joins such a sum with one of the
convolutions, and does not wait for the other: on an H200 ResNet-50 and DeepLabV3 in float32 gave other numbers in up to 94 %
of runs, up to 14 % off, most beside other processes; not so with CUDA_LAUNCH_BLOCKING=1. One stream did not help; float16 is
steady. With b - (-a) for a + b no run of 800 differed (benchmarks/h200/repeated_runs.json).
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.target import Fault

_FAULT = Fault(
    "tensorrt_rtx",
    ("1.6.1",),
    "adds two convolutions' results in float32 before both are there",
    "ResNet-50 run 200 times on an H200, alone and beside another process",
)


_BETWEEN = 4
"""Operators behind a convolution that are looked through: a norm, which may be frozen, and a bias."""


@node_rule("branch-sums", "Add", faults=(_FAULT,))
def branch_sums_rule(node: NodeView) -> Replacement | None:
    """Rewrites the sum of two convolutions' results as a difference."""
    if node.dtype(0) != "float32" or not all(_is_convolution(node.maker(i)) for i in (0, 1)):
        return None
    w = Writer(node)
    return Replacement(
        w.finish(w.Sub(w.x[1], w.Neg(w.x[0]))),
        "a difference",
        notes=(node.because((_FAULT,), "it is written as a difference"),),
    )


def _is_convolution(maker: NodeView | None) -> bool:
    """Whether it is a convolution of floats, with a norm or a bias behind it at most."""
    for _ in range(_BETWEEN):
        if maker is None or not (
            maker.is_a("BatchNormalization") or (maker.is_a("Add", "Mul") and maker.is_constant(1))
        ):
            break
        maker = maker.maker(0)
    if maker is None or not maker.is_a("Conv"):
        return False
    data = maker.maker(0)
    return data is None or not data.is_a("DequantizeLinear")  # of which TensorRT makes one in 8 bits
