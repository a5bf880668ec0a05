"""Writes the windows of ONNX's pooling operators, axis by axis, as strided slices of the padded input.

A pooling over a box is one over each of its axes in turn (a maximum, a sum), so that a kernel of 5 x 5 x 5 needs 15
slices and not 125. All taps of an axis have the same length, which follows from the input's, known or not: the tap t is
input[t * dilation : length - (kernel - 1 - t) * dilation : stride].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.importers.builder import TO_END


@dataclass(frozen=True)
class Window:
    """The windows of a pooling along one axis.

    size:   of the input along the axis, None if it is known only at run time.
    begin, end: padding; None where auto_pad = SAME_* makes it depend on an unknown size.
    extra:  further padding at the end, which ceil_mode looks into; no window counts it.
    """

    axis: int
    size: int | None
    kernel: int
    stride: int
    dilation: int
    begin: int | None
    end: int | None
    extra: int = 0
    lower: bool = False

    @property
    def reach(self) -> int:
        """The distance from a window's first tap to its last."""
        return (self.kernel - 1) * self.dilation

    @property
    def fixed_pads(self) -> bool:
        return self.begin is not None and self.end is not None

    @property
    def may_overrun(self) -> bool:
        """Whether for some input size ceil_mode adds a window that begins beyond the input and its leading padding."""
        return self.end is not None and self.extra > 0 and self.end + self.extra - 1 >= self.reach

    @property
    def overruns(self) -> bool:
        """Whether ceil_mode adds a window that starts beyond the data; also True if the size is unknown and it may."""
        if not self.may_overrun or self.size is None or self.begin is None or self.end is None:
            return self.may_overrun
        length = self.size + self.begin + self.end + self.extra
        return (length - self.reach - 1) // self.stride > (self.size + self.begin - 1) // self.stride

    @property
    def exact_end(self) -> int | None:
        """The least trailing padding with which all windows fit without ceil_mode; None for an unknown size."""
        if self.size is None or self.begin is None or self.end is None:
            return None
        length = self.size + self.begin + self.end + self.extra
        last = min((length - self.reach - 1) // self.stride, (self.size + self.begin - 1) // self.stride)
        return max(last * self.stride + self.reach + 1 - self.size - self.begin, 0)


def windows(node: NodeView) -> tuple[Window, ...] | Refusal:
    """Returns the windows that a pooling's attributes describe, by axis."""
    kernel = [int(k) for k in node.attributes.get("kernel_shape") or ()]
    count = len(kernel)
    dims = node.shape(0) or (None,) * (count + 2)
    if len(dims) != count + 2:
        return Refusal(
            f"kernel_shape = {kernel} of an input of rank {len(dims)}",
            "a number for each axis but the first two",
            "correct kernel_shape, or the input's shape, where the model is exported",
        )
    strides = node.attributes.get("strides") or [1] * count
    dilations = node.attributes.get("dilations") or [1] * count
    pads = node.attributes.get("pads") or [0] * (2 * count)
    mode = node.attributes.get("auto_pad", "NOTSET")
    ceil = bool(node.attributes.get("ceil_mode"))
    result = []
    for i in range(count):
        size, k, s, d = dims[i + 2], kernel[i], int(strides[i]), int(dilations[i])
        lower = mode == "SAME_LOWER"
        if mode in ("SAME_UPPER", "SAME_LOWER"):
            same = _same(size, (k - 1) * d, s, lower)
            result.append(Window(i + 2, size, k, s, d, *same, lower=lower))
            continue
        begin, end = (0, 0) if mode == "VALID" else (int(pads[i]), int(pads[i + count]))
        result.append(Window(i + 2, size, k, s, d, begin, end, s - 1 if ceil else 0))
        if size is not None and size + begin + end + result[-1].extra <= result[-1].reach:
            return Refusal(
                f"a window of {k:,} with dilation {d:,} along {size:,} elements, {begin + end:,} of padding beside them",
                "an input that is as long as a window",
                "correct kernel_shape, dilations or pads where the model is exported",
            )
    if node.opset < 11 and not all(w.fixed_pads for w in result):
        return Refusal(
            f"auto_pad = {mode} with strides {strides} of an input of unknown size",
            "a fixed size, or opset 11, in which a graph can compute paddings",
            "export the model with opset 11 or later, or with fixed height and width",
        )
    if node.opset < 10 and any(w.stride > 1 and w.size is None for w in result):
        return Refusal(
            f"strides {strides} of an unknown size in opset {node.opset}",
            "a fixed size, or opset 10, in which Slice has steps",
            "convert the model to a newer opset (onnx.version_converter)",
        )
    return tuple(result)


def _same(size: int | None, reach: int, stride: int, lower: bool) -> tuple[int | None, int | None]:
    """Leading and trailing padding for ceil(size / stride) windows; an odd element goes to the end, or to the beginning for
    `lower`.
    """
    if stride == 1:
        total = reach
    elif size is None:
        return None, None
    else:
        total = max((-(-size // stride) - 1) * stride + reach + 1 - size, 0)
    small, large = total // 2, total - total // 2
    return (large, small) if lower else (small, large)


def padded(
    w: Writer, data: Value, wins: Sequence[Window], rank: int, value: float = 0.0, dtype: str = ""
) -> Value:
    """Returns the input with all of its padding, including that for ceil_mode."""
    begins = {win.axis: win.begin for win in wins}
    ends = {win.axis: None if win.end is None else win.end + win.extra for win in wins}
    if all(win.fixed_pads for win in wins):
        pads = [begins.get(axis, 0) or 0 for axis in range(rank)]
        return w.pad(data, [*pads, *(ends.get(axis, 0) or 0 for axis in range(rank))], value, dtype)
    computed = {win.axis: _computed_pads(w, data, win) for win in wins if not win.fixed_pads}
    parts = []
    for side, known in enumerate((begins, ends)):
        for axis in range(rank):
            parts.append(computed[axis][side] if axis in computed else [known.get(axis, 0) or 0])
    return w.pad(data, w.Concat(*parts, axis=0), value, dtype)


def _computed_pads(w: Writer, data: Value, win: Window) -> tuple[Value, Value]:
    """The padding of auto_pad = SAME_* for sizes known at run time, as in `_same`."""
    size, one, stride = w.size(data, win.axis), [1], [win.stride]
    last = w.Div(w.Sub(size, one), stride)  # ceil(size / stride) - 1
    need = w.Add(w.Mul(last, stride), [win.reach + 1])
    # Max of integers is younger than opset 11: |a| + a is twice the positive part.
    spare = w.Sub(need, size)
    total = w.Div(w.Add(spare, w.Abs(spare)), [2])
    small = w.Div(total, [2])
    large = w.Sub(total, small)
    return (large, small) if win.lower else (small, large)


def taps(w: Writer, data: Value, win: Window) -> list[Value]:
    """Slices from the padded data, for each kernel position, the elements that all windows read there."""
    if win.kernel == 1 and win.stride == 1:
        return [data]
    w.expect(f"a window of {win.kernel:,}", nodes=4 * win.kernel)
    result = []
    for t in range(win.kernel):
        left = (win.kernel - 1 - t) * win.dilation
        end, start = -left if left else TO_END, t * win.dilation
        if win.stride > 1 and w.node.opset < 10:
            # Slice has no steps yet; `windows` saw to it that the size is known.
            length = (win.size or 0) + (win.begin or 0) + (win.end or 0) + win.extra
            index = np.arange(start, length - left, win.stride)
            result.append(w.Gather(data, index, axis=win.axis))
        elif win.stride == 1:
            result.append(w.slice(data, [start], [end], [win.axis]))
        else:
            result.append(w.slice(data, [start], [end], [win.axis], [win.stride]))
    return result


def pooled(w: Writer, data: Value, wins: Sequence[Window], combine: Callable[[list[Value]], Value]) -> Value:
    """Applies `combine` to the taps of each axis in turn, the last axis first."""
    for win in reversed(wins):
        parts = taps(w, data, win)
        data = combine(parts) if len(parts) > 1 else parts[0]
    return data


def clipped(w: Writer, data: Value, given: Value, wins: Sequence[Window]) -> Value:
    """Drops the windows that ceil_mode adds beyond the input and its leading padding.

    data: the result along all axes; given: the operator's input.
    """
    for win in wins:
        if win.begin is None or not win.may_overrun:
            continue  # the last window begins inside, whatever the size
        if win.size is not None:
            data = w.slice(data, [0], [(win.size + win.begin - 1) // win.stride + 1], [win.axis])
            continue
        end = w.Add(w.Div(w.Add(w.size(given, win.axis), [win.begin - 1]), [win.stride]), [1])
        data = w.Slice(data, [0], end, [win.axis])
    return data
