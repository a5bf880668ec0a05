"""Models that the rule float-mod takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

_X = np.array([0, -0.0, -3, 3, -1, 1, np.inf, -np.inf, 1, np.nan, -7.5, 7.5, -7.5, 7.5, 6, -6], np.float32)


_Y = np.array([-2, 2, np.inf, np.inf, -np.inf, -np.inf, 2, 2, 0, 2, 2, -2, -2, 2, -3, 3], np.float32)


_EXAMPLES = tuple(
    Example(
        dtype,
        f"""<ir_version: 10, opset_import: ["" : 28]>
        g ({dtype}[16] x, {dtype}[16] z) => ({dtype}[16] y, {dtype}[16] sign) {{
            y = Mod (x, z)
            sign = Reciprocal (y)
        }}""",
        feeds={"x": _X.astype(numpy_dtype), "z": _Y.astype(numpy_dtype)},
        reference=True,
    )
    for dtype, numpy_dtype in (("float", np.float32), ("float16", np.float16))
)


EXAMPLES = {"float-mod": _EXAMPLES}
