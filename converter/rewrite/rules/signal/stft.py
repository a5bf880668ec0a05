"""Rewrites STFT in forms that TensorRT refuses: a window that the graph computes, or a complex signal.

Frames are gathered, weighted and multiplied by the matrix of the Fourier transform.
"""

from __future__ import annotations

from shlex import quote

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.signal.fourier_matrices import PRODUCT, forward, kind_of


@node_rule("stft", "STFT")
def stft_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites STFT with a computed window as frames and a matrix product."""
    shape, dtype = node.shape(0), node.dtype(0)
    complex_signal = shape is not None and len(shape) == 3 and shape[2] == 2
    window_as_given = not node.input(2) or (node.is_constant(2) and not node.folded(2))
    if window_as_given and not complex_signal:
        return None
    step, length = _number(node, 1), _length(node)
    if step is None:
        return _not_known("frame_step", node.input(1))
    if length is None:
        return _not_known("frame_length", node.input(3))
    if dtype is None or shape is None:
        return _not_known("the signal's type", node.input(0))
    parts = 2 if complex_signal else 1
    bins = length // 2 + 1 if node.attributes.get("onesided", 1) else length
    w = Writer(node)
    narrow = dtype in ("float16", "bfloat16")
    signal = w.Cast(w.x[0], to="float32") if narrow else w.x[0]
    if len(shape) == 2:
        signal = w.Unsqueeze(signal, axes=[2])
    frames = _frames(w, signal, step, length)  # [batch, frames, length, parts]
    if node.input(2):
        window = w.Cast(w.x[2], to="float32") if narrow else w.x[2]
        frames = w.Mul(frames, w.Unsqueeze(window, axes=[1]))
    matrix = forward(w, length, length, bins, parts, kind_of(dtype))
    flat = w.Reshape(frames, [0, 0, length * parts])
    product = w.MatMul(flat, matrix)
    result = w.Reshape(product, [0, 0, bins, 2])
    return Replacement(
        w.finish(w.Cast(result, to=dtype) if narrow else result),
        "STFT by frames and the matrix of its transform",
        numerics=PRODUCT,
    )


def _not_known(what: str, culprit: str) -> Refusal:
    return Refusal(
        f"{what} ({culprit!r}) is not known before run time",
        "a constant, and a window of fixed length",
        f"freeze it: --freeze {quote(culprit)}=N" if culprit else "give the window a fixed length",
    )


def _length(node: NodeView) -> int | None:
    """Of a frame: as the node has it, or its window."""
    length = _number(node, 3)
    if length is None and node.input(2):
        sizes = node.shape(2)
        return sizes[0] if sizes else None
    return length


def _number(node: NodeView, index: int) -> int | None:
    value = node.constant(index)
    return None if value is None else int(value.reshape(-1)[0])


def _frames(w: Writer, signal: Value, step: int, length: int) -> Value:
    """Cuts the signal's second axis into 1 + (size - length) / step frames."""
    count = w.Add(w.Div(w.Sub(w.size(signal, 1), [length]), [step]), [1])
    places = w.Add(w.Unsqueeze(w.Mul(w.arange(count), step), axes=[1]), w.numbers(length)[None])
    return w.Gather(signal, places, axis=1)
