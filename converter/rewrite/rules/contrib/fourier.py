"""Rewrites onnxruntime's Rfft and Irfft, which its CUDA provider alone runs, as products with cosines and sines."""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import float_type, unknown


def _rfft(node: NodeView) -> Replacement | Refusal | None:
    """The one-sided DFT of the last axis, as a product with cosines and negative sines."""
    dims, dtype = node.shape(0), float_type(node)
    fault = _one_signal(node)
    if fault or not dims or dims[-1] is None or dtype is None:
        return fault or unknown(node, 0, "the last size")
    n = dims[-1]
    angles = 2 * np.pi * np.outer(np.arange(n), np.arange(n // 2 + 1)) / n
    cos, sin = (array.astype(dtype) for array in (np.cos(angles), -np.sin(angles)))
    w = Writer(node)
    parts = (w.Unsqueeze(w.MatMul(w.x[0], matrix), axes=[-1]) for matrix in (cos, sin))
    return Replacement(w.finish(w.Concat(*parts, axis=-1)), "a product with cosines and sines")


def _irfft(node: NodeView) -> Replacement | Refusal | None:
    """Back from one side: n = 2 (frequencies - 1) samples, divided by n."""
    dims, dtype = node.shape(0), float_type(node)
    fault = _one_signal(node)
    if fault or not dims or len(dims) < 2 or dims[-2] is None or dtype is None:
        return fault or unknown(node, 0, "the size before the last")
    bins = dims[-2]
    n = 2 * (bins - 1)
    angles = 2 * np.pi * np.outer(np.arange(bins), np.arange(n)) / n
    twice = np.where((np.arange(bins) == 0) | (np.arange(bins) == bins - 1), 1.0, 2.0)[:, None] / n
    cos, sin = (array.astype(dtype) for array in (np.cos(angles) * twice, -np.sin(angles) * twice))
    w = Writer(node)
    even, odd = (w.MatMul(w.Gather(w.x[0], part, axis=-1), matrix) for part, matrix in enumerate((cos, sin)))
    return Replacement(w.finish(w.Add(even, odd)), "products with cosines and sines")


def _one_signal(node: NodeView) -> Refusal | None:
    given = {name: node.attributes.get(name) for name in ("signal_ndim", "normalized", "onesided")}
    if given["signal_ndim"] in (1, None) and not given["normalized"] and given["onesided"] in (1, None):
        return None
    shown = ", ".join(f"{name} = {value}" for name, value in given.items() if value is not None)
    return Refusal(
        shown, "one-sided signals of one dimension, not normalised", "export the model with ONNX's DFT"
    )


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    return _rfft(node) if node.op_type == "Rfft" else _irfft(node)


CONTRIB_FOURIER = NodeRule(
    "contrib-fourier",
    "onnxruntime's Rfft and Irfft become matrix products",
    ("com.microsoft::Rfft", "com.microsoft::Irfft"),
    _rewrite,
)
"""Its transforms are tested against numpy's: onnxruntime's CPU provider has none."""
