"""Rewrites Dropout in training mode as a comparison with uniform numbers: TensorRT has the one that does nothing.

That is how a Monte Carlo dropout model, which estimates its uncertainty at inference, is exported.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.rules.random.random_values import NUMERICS, uniform
from trtsmith.importers.dtypes import FLOATS


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    """Each element is kept with probability 1 - ratio, and divided by it, from opset 12 on."""
    if not node.input(2):
        return None
    training, dtype = node.constant(2), node.dtype(0)
    if training is None:
        return Refusal(
            f"whether Dropout is in training mode ({node.input(2)!r}) is computed at run time",
            "a constant",
            f"freeze it: --freeze {node.input(2)}=0",
        )
    if not bool(training.reshape(-1)[0]):
        return None
    ratio = node.constant(1) if node.input(1) else np.array(0.5, np.float32)
    if ratio is None or dtype not in FLOATS:
        return Refusal(
            f"the ratio ({node.input(1)!r}) is computed at run time, or the element type unknown",
            "a constant ratio, and a known type",
            f"freeze it: --freeze {node.input(1)}=VALUE",
        )
    part = float(ratio.reshape(-1)[0])
    kind = np.dtype(dtype)
    # At a ratio of 1 nothing is kept, so that the scale is not used.
    scale = np.array(1 / (1 - part) if part < 1 else 0).astype(kind)
    w = Writer(node)
    kept = w.GreaterOrEqual(uniform(w, w.Cast(w.x[0], to="float32")), part)
    result = w.Where(kept, w.Mul(w.x[0], scale), np.array(0).astype(kind))
    return Replacement(
        w.finish(result, kept),
        "a comparison with uniform numbers",
        notes=(
            "elements are dropped at inference, too: export the model in evaluation mode if they must not be",
        ),
        numerics=NUMERICS,
    )


TRAINING_DROPOUT = NodeRule(
    "training-dropout",
    "Dropout in training mode by a comparison with uniform numbers",
    ("Dropout",),
    _rewrite,
)
