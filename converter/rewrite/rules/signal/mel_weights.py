"""Computes MelWeightMatrix of constants by ONNX's reference implementation, as TensorRT does not import it."""

from __future__ import annotations

from shlex import quote

import numpy as np

from trtsmith.converter.graph.constant_nodes import evaluated
from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.rules.signal.dft import LONGEST

_NAMES = ("num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz")


@node_rule("mel-weights", "MelWeightMatrix")
def mel_weights_rule(node: NodeView) -> Replacement | Refusal | None:
    """Folds MelWeightMatrix of constants into a constant."""
    feeds = {}
    for index, name in enumerate(_NAMES):
        value = node.constant(index)
        if value is None:
            return Refusal(
                f"{name} ({node.input(index)!r}) is computed at run time",
                "a constant: it decides what is computed, or how large it is",
                f"freeze it: --freeze {quote(node.input(index))}=VALUE",
            )
        # In float32 the edges of bins would be rounded.
        feeds[node.input(index)] = value.reshape(-1)[0].astype(np.float64 if index > 2 else np.int64)
    bins, points = (int(feeds[node.input(index)]) for index in range(2))
    if max(bins, points) > LONGEST:
        return Refusal(
            f"{bins:,} bins of {points:,} points",
            f"at most {LONGEST:,}",
            "export the model with a smaller matrix",
        )
    w = Writer(node)
    w.expect(f"MelWeightMatrix of {bins:,} bins", nbytes=8 * (bins + 2) * (points // 2 + 1))
    (matrix,) = evaluated(node.proto, node.opset, feeds)
    return Replacement(w.finish(matrix), "MelWeightMatrix of constants as a constant")
