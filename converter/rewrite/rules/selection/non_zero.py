"""NonZero whose number of results is known beforehand: its input is constant, or the model declares the size.

Other nodes stay as they are for TensorRT, which has a layer, and become a plugin for TensorRT-RTX (non_zero_plugin.py).
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Replacement
from trtsmith.converter.rewrite.engine.opset_forms import unsqueeze
from trtsmith.converter.rewrite.engine.statement_writer import statements
from trtsmith.converter.rewrite.rules.selection.positions import positions


def _rewrite(node: NodeView) -> Replacement | None:
    value = node.constant(0)
    if value is not None:
        found = np.array(np.nonzero(np.atleast_1d(value)), np.int64)
        return Replacement(statements(node, "y0 = Identity (found)", found=found), "a constant")
    declared, rank = node.output_shape(0), node.rank(0)
    count = declared[1] if declared and len(declared) == 2 else None
    if count is None or not rank:
        return None
    text, constants = positions("found", "mask", count, node.opset)
    # From the innermost dimension outwards: what is left of the position modulo the size, then divided by it.
    lines, rest = [], "found"
    for axis in range(rank - 1, -1, -1):
        lines.append(f"size_{axis} = Gather <axis = 0> (shape, number_{axis})")
        lines.append(f"part_{axis} = Mod ({rest}, size_{axis})")
        lines.append(unsqueeze(f"row_{axis}", f"part_{axis}", [0], node.opset))
        lines.append(f"rest_{axis} = Div ({rest}, size_{axis})")
        rest = f"rest_{axis}"
        constants[f"number_{axis}"] = np.array(axis)
    listed = "\n".join(lines)
    body = f"""
        bools = Cast <to = 9> (x0)
        mask = Reshape (bools, flat)
        {text}
        shape = Shape (x0)
        {listed}
        y0 = Concat <axis = 0> ({", ".join(f"row_{axis}" for axis in range(rank))})
    """
    return Replacement(
        statements(node, body, flat=np.array([-1]), **constants),
        f"the {count} positions that the model declares",
        numerics=f"the model declares {count} elements that are not zero: more are cut off, for fewer zeros are given",
    )


NON_ZERO = NodeRule(
    "non-zero",
    "NonZero of a known number of results",
    ("NonZero",),
    _rewrite,
)
