"""Dropout in training mode by a comparison with uniform numbers: TensorRT has the one that does nothing.

That is how a Monte Carlo dropout model, which estimates its uncertainty at inference, is exported.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import statements
from trtsmith.converter.rewrite.rules.random.random_values import NUMERICS, seed

_FLOATS = ("float16", "bfloat16", "float32", "float64")


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
    if ratio is None or dtype not in _FLOATS:
        return Refusal(
            f"the ratio ({node.input(1)!r}) is computed at run time, or the element type unknown",
            "a constant ratio, and a known type",
            f"freeze it: --freeze {node.input(1)}=VALUE",
        )
    part = float(ratio.reshape(-1)[0])
    kind = np.dtype(dtype)
    # At a ratio of 1 nothing is kept, so that the scale is not used.
    scale = np.array(1 / (1 - part) if part < 1 else 0).astype(kind)
    body = f"""
        number = Cast <to = 1> (x0)
        drawn = RandomUniformLike <dtype = 1, low = 0.0, high = 1.0{seed(node)}> (number)
        kept = GreaterOrEqual (drawn, ratio)
        scaled = Mul (x0, scale)
        y0 = Where (kept, scaled, zero)
        {"y1 = Identity (kept)" if node.used(1) else ""}
    """
    nodes = statements(
        node, body, ratio=np.array(part, np.float32), scale=scale, zero=np.array(0).astype(kind)
    )
    return Replacement(
        nodes,
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
