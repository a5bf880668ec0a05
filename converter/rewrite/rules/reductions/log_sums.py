"""Rewrites LogSoftmax and ReduceLogSumExp with differences from the maximum, for TensorRT-RTX.

TensorRT-RTX 1.6.1 takes the exponentials as they come (seen on an H200): LogSoftmax gives -inf where a value is 104 below
the sum in float32 and 17 in float16, ReduceLogSumExp gives inf for values from 89 on in float32, from 12 in float16.

Halves are computed in float32: a sum of 65,520 equal exponentials is beyond float16, and each step would round.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.reductions.reduced_axes import reduced_axes
from trtsmith.converter.rewrite.target import Fault
from trtsmith.importers.dtypes import FLOATS

_FAULTS = (
    Fault(
        "tensorrt_rtx",
        ("1.6.1",),
        "takes exponentials of the values themselves, which overflow or vanish",
        "an engine run on an H200",
    ),
)


@node_rule("log-sums", "LogSoftmax", "ReduceLogSumExp", faults=_FAULTS)
def log_sums_rule(node: NodeView) -> Replacement | None:
    """Rewrites LogSoftmax and ReduceLogSumExp with differences from the maximum, for values far apart."""
    rank, dtype = node.rank(0), node.dtype(0)
    oldest = 7 if node.op_type == "LogSoftmax" else 11  # Sub that broadcasts, Equal of floats
    if not rank or dtype not in FLOATS or node.opset < oldest:
        return None
    w = Writer(node)
    half = dtype in ("float16", "bfloat16")
    x, work = (w.Cast(w.x[0], to="float32"), "float32") if half else (w.x[0], dtype)
    if node.op_type == "LogSoftmax":
        axis = int(node.attributes.get("axis", -1)) % rank
        axes = [axis] if node.opset >= 13 else list(range(axis, rank))
        differences = w.Sub(x, w.reduce("ReduceMax", x, axes))
        result = w.Sub(differences, _log_of_sum(w, differences, axes))
        return Replacement(
            w.finish(w.Cast(result, to=dtype) if half else result),
            "differences from the maximum",
            notes=(node.because(_FAULTS),),
        )
    found = reduced_axes(node, rank)
    if not found:  # only a run tells, or there are none
        return None
    largest = w.reduce("ReduceMax", x, found)
    # Of nothing but -inf, and of inf, the differences would be NaN.
    infinite = w.Equal(w.Abs(largest), w.number(float("inf"), work))
    base = w.Where(infinite, w.number(0.0, work), largest)
    total = w.Add(_log_of_sum(w, w.Sub(x, base), found), base)
    result = total if node.attributes.get("keepdims", 1) else w.squeeze(total, found)
    return Replacement(
        w.finish(w.Cast(result, to=dtype) if half else result),
        "differences from the maximum",
        notes=(node.because(_FAULTS),),
    )


def _log_of_sum(w: Writer, differences: Value, axes: list[int]) -> Value:
    return w.Log(w.reduce("ReduceSum", w.Exp(differences), axes))
