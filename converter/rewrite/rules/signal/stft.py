"""Rewrites STFT in the forms that TensorRT refuses: a window that the graph computes, a complex signal.

Frames are gathered, weighted and multiplied by the matrix of the Fourier transform.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import Writer
from trtsmith.converter.rewrite.rules.signal.dft import PRODUCT
from trtsmith.converter.rewrite.rules.signal.dft_matrix import forward


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    shape, dtype = node.shape(0), node.dtype(0)
    complex_signal = shape is not None and len(shape) == 3 and shape[2] == 2
    window_as_given = not node.input(2) or (node.is_constant(2) and not node.folded(2))
    if window_as_given and not complex_signal:
        return None
    step, length = _number(node, 1), _number(node, 3)
    if length is None and node.input(2):
        sizes = node.shape(2)
        length = sizes[0] if sizes else None
    if step is None or length is None or dtype is None or shape is None:
        missing = "frame_step" if step is None else "frame_length" if length is None else "the signal's type"
        culprit = node.input(1 if step is None else 3 if length is None else 0)
        return Refusal(
            f"{missing} ({culprit!r}) is not known before run time",
            "a constant, and a window of fixed length",
            f"freeze it: --freeze {culprit}=N" if culprit else "give the window a fixed length",
        )
    parts = 2 if complex_signal else 1
    bins = length // 2 + 1 if node.attributes.get("onesided", 1) else length
    w = Writer(node)
    narrow = dtype in ("float16", "bfloat16")
    signal = w.cast("x0", "float32") if narrow else "x0"
    if len(shape) == 2:
        signal = w.unsqueeze(signal, [2])
    frames = _frames(w, signal, step, length)  # [batch, frames, length, parts]
    if node.input(2):
        window = w.cast("x2", "float32") if narrow else "x2"
        frames = w.do("Mul", frames, w.unsqueeze(window, [1]))
    matrix = forward(length, length, bins, parts)
    flat = w.do("Reshape", frames, w.ints(0, 0, length * parts))
    product = w.do("MatMul", flat, w.const(matrix.astype("float64" if dtype == "float64" else "float32")))
    result = w.do("Reshape", product, w.ints(0, 0, bins, 2))
    if narrow:
        w.cast(result, dtype, result="y0")
    else:
        w.do("Identity", result, result="y0")
    return Replacement(w.nodes(), "STFT by frames and the matrix of its transform", numerics=PRODUCT)


def _number(node: NodeView, index: int) -> int | None:
    value = node.constant(index)
    return None if value is None else int(value.reshape(-1)[0])


def _frames(w: Writer, signal: str, step: int, length: int) -> str:
    """1 + (size - length) / step pieces of the signal's second axis."""
    room = w.do("Sub", w.size(signal, 1), w.ints(length))
    count = w.do("Add", w.do("Div", room, w.ints(step)), w.ints(1))
    starts = w.unsqueeze(w.do("Mul", w.arange(count), w.number(step, "int64")), [1])
    places = w.do("Add", starts, w.const(np.arange(length)[None]))
    return w.do("Gather", signal, places, axis=1)


STFT = NodeRule(
    "stft",
    "STFT with a computed window becomes frames and a product",
    ("STFT",),
    _rewrite,
)
