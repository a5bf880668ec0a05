"""Models that the rule bit-shift takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example
from trtsmith.converter.rewrite.rules.bits.legal_integers import LEGAL_INTEGERS


def _example(dtype: str, direction: str) -> Example:
    """Every shift up to beyond the width, and a negative one, of values with all bits random, all set, the top one."""
    width, info = LEGAL_INTEGERS[dtype].width, np.iinfo(dtype)
    signed = dtype.startswith("int")
    values = np.random.default_rng(width).integers(info.min, info.max, (4, width + 4), dtype, endpoint=True)
    values[0], values[1] = (-1, info.min) if signed else (info.max, 1 << (width - 1))
    shifts = np.array([*range(width + 2), info.max, info.min], dtype)
    opset = 28 if signed else 11
    return Example(
        f"{dtype}-{direction}",
        f"""<ir_version: 7, opset_import: ["" : {opset}]>
        g ({dtype}[4, {width + 4}] x, {dtype}[{width + 4}] n) => ({dtype}[4, {width + 4}] y) {{
            y = BitShift <direction = "{direction}"> (x, n)
        }}""",
        feeds={"x": values, "n": shifts},
        reference=True,
    )


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "bit-shift": tuple(
        _example(dtype, direction) for dtype in LEGAL_INTEGERS for direction in ("LEFT", "RIGHT")
    ),
}
