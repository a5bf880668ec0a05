"""Models that the rule bool-reduce takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

_DATA = np.array(
    [[[True, False], [False, False]], [[True, True], [False, True]], [[False, False], [False, False]]]
)


_EXAMPLES = tuple(
    Example(
        f"{op} {kind}",
        f"""<ir_version: 9, opset_import: ["" : 20]>
        g (bool[3, 2, 2] x) => (bool{shape} y) {{
            {axes}
            y = {op} <keepdims = {keep}> ({inputs})
        }}""",
        feeds={"x": _DATA},
        reference=True,
    )
    for op in ("ReduceMax", "ReduceMin")
    for kind, shape, keep, axes, inputs in (
        ("over an axis", "[3, 1, 2]", 1, "a = Constant <value = int64[1] {-2}> ()", "x, a"),
        ("over all", "", 0, "", "x"),
    )
)


EXAMPLES = {"bool-reduce": _EXAMPLES}
