"""Rewrites onnxruntime's Rfft and Irfft, which its CUDA provider alone runs, as products with cosines and sines."""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import statements
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import float_type, unknown


def _rfft(node: NodeView) -> Replacement | Refusal | None:
    """The one-sided transform of the last axis, by its definition: a product with cosines and negative sines."""
    dims, dtype = node.shape(0), float_type(node)
    fault = _one_signal(node)
    if fault or not dims or dims[-1] is None or dtype is None:
        return fault or unknown(node, 0, "the last size")
    n = dims[-1]
    angles = 2 * np.pi * np.outer(np.arange(n), np.arange(n // 2 + 1)) / n
    body = """
        real = MatMul (x0, cos)
        imaginary = MatMul (x0, sin)
        real_column = Unsqueeze <axes = [-1]> (real)
        imaginary_column = Unsqueeze <axes = [-1]> (imaginary)
        y0 = Concat <axis = -1> (real_column, imaginary_column)
    """
    cos, sin = (array.astype(dtype) for array in (np.cos(angles), -np.sin(angles)))
    return Replacement(statements(node, body, cos=cos, sin=sin), "a product with cosines and sines")


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
    body = """
        real_index = Constant <value = int64 {0}> ()
        imaginary_index = Constant <value = int64 {1}> ()
        real = Gather <axis = -1> (x0, real_index)
        imaginary = Gather <axis = -1> (x0, imaginary_index)
        even = MatMul (real, cos)
        odd = MatMul (imaginary, sin)
        y0 = Add (even, odd)
    """
    cos, sin = (array.astype(dtype) for array in (np.cos(angles) * twice, -np.sin(angles) * twice))
    return Replacement(statements(node, body, cos=cos, sin=sin), "products with cosines and sines")


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
