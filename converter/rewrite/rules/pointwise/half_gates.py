"""Computes float16 and bfloat16 gates in float32 between Casts, for TensorRT-RTX.

Gates are products of an image with one number for each of its channels, as squeeze-and-excitation has them. TensorRT-RTX
1.6.1 makes one kernel of such a gate in 16 bits and the depthwise convolution before it. For dynamic shapes it has none, and
fails when it runs (seen on an H200). In float32 between Casts it runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from trtsmith.converter.graph.tensor_types import Dim
from trtsmith.converter.rewrite.engine.node_rule import NodeView, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.target import Fault

_FAULTS = (
    Fault(
        "tensorrt_rtx",
        ("1.6.1",),
        "fails to run some gates of channels in 16 bits",
        "an engine run on an H200",
    ),
)


_SPATIAL = 2
"""The first axis behind batch and channels."""


def _is_gate(factors: Sequence[tuple[Dim, ...] | None]) -> bool:
    """Whether these are the shapes of a gate and of a dynamic image of more than one pixel."""
    images = [dims for dims in factors if dims is not None and len(dims) > _SPATIAL]
    wide = [dims for dims in images if any(size != 1 for size in dims[_SPATIAL:])]
    return (
        len(images) == len(factors) == 2 and len(wide) == 1 and not all(isinstance(n, int) for n in wide[0])
    )


@node_rule("half-gates", "Mul", faults=_FAULTS)
def half_gates_rule(node: NodeView) -> Replacement | None:
    """Computes 16-bit gates of channels in float32, for dynamic shapes."""
    dtype = node.dtype(0)
    if dtype not in ("float16", "bfloat16") or any(node.is_constant(i) for i in range(2)):
        return None
    if not _is_gate([node.dims(0), node.dims(1)]):
        return None
    w = Writer(node)
    return Replacement(
        w.finish(w.Cast(w.Mul(w.Cast(w.x[0], to="float32"), w.Cast(w.x[1], to="float32")), to=dtype)),
        f"a product in float32, rounded to {dtype}",
        notes=(node.because(_FAULTS, "it is computed in float32 between Casts"),),
    )
