"""Rewrites MaxPool, AveragePool and LpPool where TensorRT refuses them: dilations, integers, other norms, 1-D.

Each becomes strided slices that are combined (pool_windows.py), for sizes that are known or not.

ceil_mode: TensorRT-RTX 1.6.1 keeps windows that begin beyond the input and its padding at the beginning, which ONNX drops
(seen on an H200: a larger output). For known sizes the padding at the end is written so that the others fit exactly. Of an
average with count_include_pad it also counts what a window finds beyond all padding, which ONNX does not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.refusing import unrefused
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.pooling.pool_windows import Window, clipped, padded, pooled, windows
from trtsmith.converter.rewrite.target import Fault


def _counts(
    w: Writer, given: Value, wins: Sequence[Window], rank: int, dtype: str, include_pad: bool
) -> Value:
    """The number of elements that each window averages; float, broadcastable to the result.

    With include_pad the padding counts, but not what only ceil_mode looks into.
    """
    factors: list[Value] = []
    number = 1.0
    for win in wins:
        regular = include_pad or (win.begin == 0 and win.end == 0)
        if regular and not win.extra:
            number *= win.kernel
            continue
        factors.append(_counts_along(w, given, win, rank, dtype, include_pad))
    result = factors[0] if factors else w.number(number, dtype)
    for factor in factors[1:]:
        result = w.Mul(result, factor)
    if factors and number != 1:
        result = w.Mul(result, w.number(number, dtype))
    return result


def _counts_along(w: Writer, given: Value, win: Window, rank: int, dtype: str, include_pad: bool) -> Value:
    """The counts along one axis, as a pooling of ones."""
    flat = Window(0, win.size, win.kernel, win.stride, win.dilation, win.begin, win.end, win.extra, win.lower)
    if win.size is not None and win.begin is not None and win.end is not None:
        length = win.size + win.begin + win.end + win.extra
        w.expect(f"counts of windows along {length:,}", nbytes=16 * length)
        ones = np.ones(win.size + include_pad * (win.begin + win.end))
        edges = (0, win.extra) if include_pad else (win.begin, win.end + win.extra)
        line = np.pad(ones, edges)
        found = sum(
            line[t * win.dilation : len(line) - (win.kernel - 1 - t) * win.dilation : win.stride]
            for t in range(win.kernel)
        )
        limit = (win.size + win.begin - 1) // win.stride + 1
        found = np.asarray(found)[:limit] if win.extra else np.asarray(found)
        shape = [-1 if axis == win.axis else 1 for axis in range(rank)]
        return w.constant(found.reshape(shape).astype(dtype))
    whole = w.Expand(w.number(1.0, dtype), w.size(given, win.axis))
    if include_pad and win.begin is not None and win.end is not None:
        line_of_ones = w.pad(w.pad(whole, [win.begin, win.end], 1.0, dtype), [0, win.extra])
    else:
        line_of_ones = padded(w, whole, [flat], 1)
    counted = pooled(w, line_of_ones, [flat], lambda parts: w.Sum(*parts))
    counted = clipped(w, counted, whole, [flat])
    return w.unsqueeze(counted, [axis for axis in range(rank) if axis != win.axis])


_INTEGERS = ("uint8", "int32")
"""int32 is what a uint8 tensor has become where TensorRT has no uint8; int8 TensorRT pools itself."""

_KEPT = "keeps windows of ceil_mode that begin in the padding at the end, which ONNX drops"
_CEIL_MODE = (
    Fault("tensorrt_rtx", ("1.6.1",), _KEPT, "an engine run on an H200"),
    Fault("tensorrt", ("10.14",), _KEPT, "the formula of PaddingMode::kEXPLICIT_ROUND_UP in NvInfer.h"),
)


def _dilated(node: NodeView) -> bool:
    return any(d != 1 for d in node.attributes.get("dilations") or ())


def _volumetric(node: NodeView) -> bool:
    """Whether the node pools over more than three spatial axes, which TensorRT does not."""
    return len(node.attributes.get("kernel_shape") or ()) > 3


def _overrunning(node: NodeView) -> tuple[Window, ...]:
    """The windows if ceil_mode adds, or may add, some that ONNX drops and TensorRT keeps; else ()."""
    if not node.attributes.get("ceil_mode") or not any(map(node.has, _CEIL_MODE)):
        return ()
    wins = windows(node)
    return wins if not isinstance(wins, Refusal) and any(win.overruns for win in wins) else ()


def _fits(node: NodeView) -> bool:
    """Whether TensorRT's layer gives ONNX's windows, perhaps with another padding at the end."""
    wins = _overrunning(node)
    if any(win.exact_end is None for win in wins):
        return False
    # Padding that counts must not grow: what only ceil_mode looks into does not count.
    counted = node.op_type == "AveragePool" and bool(node.attributes.get("count_include_pad"))
    return not counted or all((win.exact_end or 0) <= (win.end or 0) for win in wins)


def _miscounted(node: NodeView) -> bool:
    """Whether an average that counts padding reaches beyond it, or may for sizes known at run time."""
    if not (node.attributes.get("count_include_pad") and node.attributes.get("ceil_mode")):
        return False
    wins = windows(node)
    ends = [] if isinstance(wins, Refusal) else [(win.exact_end, win.end or 0) for win in wins]
    return any(exact is None or exact > end for exact, end in ends)


def _without_ceil(node: NodeView) -> Replacement | None:
    """The same pooling without ceil_mode, padded to ONNX's windows; None if TensorRT has no window too many."""
    wins = _overrunning(node)
    if not wins:
        return None
    w = Writer(node)
    given = {a.name: node.attributes[a.name] for a in node.proto.attribute} | {
        "pads": [*(win.begin or 0 for win in wins), *(win.exact_end or 0 for win in wins)]
    }
    for name in ("ceil_mode", "auto_pad"):
        given.pop(name, None)
    return Replacement(
        w.finish(w.write(node.op_type, w.x[0], **given)),
        f"{node.op_type} without ceil_mode, padded to the same windows",
        (node.because(_CEIL_MODE),),
    )


def _max(node: NodeView) -> Replacement | Refusal | None:
    if node.used(1):
        return None  # another rule's
    dtype = node.dtype(0)
    refused = _dilated(node) or _volumetric(node) or not _fits(node)
    whole = dtype in _INTEGERS or (dtype == "int8" and refused)
    if not refused and not whole:
        return _without_ceil(node)
    w = Writer(node)
    if whole:
        # Whole numbers up to 255 are exact in float32, and so is the larger of two.
        given = {a.name: node.attributes[a.name] for a in node.proto.attribute}
        return Replacement(
            w.finish(w.Cast(w.MaxPool(w.Cast(w.x[0], to="float32"), **given), to=dtype)),
            "MaxPool of integers in float32, exact for them",
        )
    wins = unrefused(windows(node))
    data = padded(w, w.x[0], wins, node.known_rank(0), float("-inf"), node.known_dtype(0))
    data = pooled(w, data, wins, lambda parts: w.Max(*parts))
    return Replacement(
        w.finish(clipped(w, data, w.x[0], wins)), "MaxPool as the maximum of strided slices", _told(node)
    )


def _average(node: NodeView) -> Replacement | Refusal | None:
    if not (_dilated(node) or _volumetric(node) or _miscounted(node)) and _fits(node):
        return _without_ceil(node)
    return _summed(node, "AveragePool as the mean of strided slices")


def _lp(node: NodeView) -> Replacement | Refusal | None:
    p = node.attributes.get("p", 2)
    if p <= 0:
        return Refusal(f"p = {p:g}", "a norm's p, 1 or more", "correct p where the model is exported")
    flat = len(node.attributes.get("kernel_shape") or ()) == 1
    layered = node.dtype(0) != "bfloat16"  # TensorRT has no kernel for that type
    if p in (1, 2) and layered and not (_dilated(node) or _volumetric(node) or flat) and _fits(node):
        return _without_ceil(node)
    return _summed(node, f"LpPool with p = {p:g} as a sum over strided slices")


def _summed(node: NodeView, what: str) -> Replacement | Refusal:
    """Sums the windows, in float32 for narrower types as runtimes do."""
    dtype, rank = node.known_dtype(0), node.known_rank(0)
    wins = unrefused(windows(node))
    w = Writer(node)
    narrow = dtype in ("float16", "bfloat16")
    wide = "float32" if narrow else dtype
    data = w.Cast(w.x[0], to=wide) if narrow else w.x[0]
    p = float(node.attributes.get("p", 2)) if node.op_type == "LpPool" else 1.0
    if node.op_type == "LpPool":
        data = _power(w, data, p, wide)
    data = padded(w, data, wins, rank)
    data = pooled(w, data, wins, lambda parts: w.Sum(*parts))
    data = clipped(w, data, w.x[0], wins)
    if node.op_type == "LpPool":
        data = _root(w, data, p, wide)
    else:
        include = bool(node.attributes.get("count_include_pad"))
        data = w.Div(data, _counts(w, w.x[0], wins, rank, wide, include))
    return Replacement(w.finish(w.Cast(data, to=dtype) if narrow else data), what, _told(node))


def _told(node: NodeView) -> tuple[str, ...]:
    return (node.because(_CEIL_MODE),) if _overrunning(node) else ()


def _power(w: Writer, data: Value, p: float, dtype: str) -> Value:
    if p == 2:
        return w.Mul(data, data)
    size = w.Abs(data)
    return size if p == 1 else w.Pow(size, w.number(p, dtype))


def _root(w: Writer, data: Value, p: float, dtype: str) -> Value:
    if p == 1:
        return data
    return w.Sqrt(data) if p == 2 else w.Pow(data, w.number(1 / p, dtype))


@node_rule("pooling", "AveragePool", "LpPool", "MaxPool", partly=_CEIL_MODE)
def pooling_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites dilated pooling, and LpPool of any p, as combined strided slices."""
    return {"MaxPool": _max, "AveragePool": _average, "LpPool": _lp}[node.op_type](node)
