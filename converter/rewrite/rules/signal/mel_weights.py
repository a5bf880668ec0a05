"""Computes MelWeightMatrix of constant parameters: TensorRT does not import the operator.

Formula: ONNX's reference implementation, the triangles of HTK's mel scale over bins of the spectrum.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.importers.dtypes import numpy_dtype

_NAMES = ("num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz")


@node_rule("mel-weights", "MelWeightMatrix")
def mel_weights_rule(node: NodeView) -> Replacement | Refusal | None:
    """MelWeightMatrix of constants becomes a constant."""
    values = []
    for index, name in enumerate(_NAMES):
        value = node.constant(index)
        if value is None:
            return Refusal(
                f"{name} ({node.input(index)!r}) is computed at run time",
                "a constant: it decides what is computed, or how large it is",
                f"freeze it: --freeze {node.input(index)}=VALUE",
            )
        values.append(value.reshape(-1)[0])
    mel_bins, length, rate = (int(v) for v in values[:3])
    matrix = mel_matrix(mel_bins, length, rate, float(values[3]), float(values[4]))
    dtype = numpy_dtype(node.attributes.get("output_datatype", 1))
    return Replacement(
        Writer(node).finish(matrix.astype(dtype)), "MelWeightMatrix of constants as a constant"
    )


def mel_matrix(mel_bins: int, length: int, rate: int, low: float, high: float) -> np.ndarray:
    """float64[length / 2 + 1, mel_bins]."""
    ends = [2595 * np.log10(1 + hertz / 700) for hertz in (low, high)]
    step = (ends[1] - ends[0]) / (mel_bins + 2)
    hertz = 700 * (10 ** ((np.arange(mel_bins + 2) * step + ends[0]) / 2595) - 1)
    bins = ((length + 1) * hertz // rate).astype(int)
    result = np.zeros((length // 2 + 1, mel_bins))
    for i, (left, centre, right) in enumerate(zip(bins, bins[1:], bins[2:], strict=False)):
        rising = np.arange(left, centre + 1)
        result[rising, i] = (rising - left) / (centre - left) if centre > left else 1.0
        falling = np.arange(centre, right)
        result[falling, i] = (right - falling) / max(right - centre, 1)
    return result
