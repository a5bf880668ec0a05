"""Models that the rule bit-cast takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example
from trtsmith.importers.dtypes import dtype_name

_FLOATS = np.array([0, -0.0, 1, -2.5, 3.1415927, 65504, -6e-5, 5.9604645e-08, -1e-7, np.inf, -np.inf, np.nan])


_EXTREMES = np.array(
    [3.4028235e38, 1.1754944e-38, 1e-45, -1.1754942e-38, -7e-42, 1.9999999, 0.99999994, 1e30]
)


def _from_float(dtype: str, numpy_dtype: str, number: int) -> Example:
    values = _FLOATS if numpy_dtype == "float16" else np.concatenate([_FLOATS, _EXTREMES])
    target = dtype_name(number)
    return Example(
        f"{dtype}-to-{target}",
        f"""<ir_version: 10, opset_import: ["" : 26]>
        g ({dtype}[{len(values)}] x) => ({target}[{len(values)}] y) {{ y = BitCast <to = {number}> (x) }}""",
        feeds={"x": values.astype(np.float32).astype(np.dtype(numpy_dtype))},
        reference=True,
    )


def _from_integer(dtype: str, target: str, number: int) -> Example:
    """Random bits: every exponent, both signs; no NaN, whose payload is lost."""
    info = np.iinfo(dtype)
    bits = np.random.default_rng(number).integers(info.min, info.max, 2000, dtype, endpoint=True)
    if target == "float16":
        bits = bits[bits & 0x7C00 != 0x7C00]
    bits = bits[:500]
    return Example(
        f"{dtype}-to-{target}",
        f"""<ir_version: 10, opset_import: ["" : 26]>
        g ({dtype}[500] x) => ({target}[500] y) {{ y = BitCast <to = {number}> (x) }}""",
        feeds={"x": bits},
        rtol=0,
        atol=0,
        reference=True,
    )


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "bit-cast": (
        _from_float("float", "float32", 6),
        _from_float("float", "float32", 12),
        _from_float("float16", "float16", 5),
        _from_float("float16", "float16", 4),
        _from_integer("int32", "float", 1),
        _from_integer("uint32", "float", 1),
        _from_integer("int16", "float16", 10),
        Example(
            "double",
            """<ir_version: 10, opset_import: ["" : 26]>
            g (double[5] x, int64[5] n) => (int64[5] y, double[5] z) {
                y = BitCast <to = 7> (x)
                z = BitCast <to = 11> (n)
            }""",
            feeds={
                "x": np.array([1.0, -2.5, 0.0, -0.0, 1e-30], np.float32).astype(np.float64),
                "n": np.array([1.0, -2.5, 3.75, -0.0, np.inf]).view(np.int64),
            },
            reference=True,
        ),
        Example(
            "integers",
            """<ir_version: 10, opset_import: ["" : 26]>
            g (uint8[3] x, bool[2] b) => (int32[3] y, uint8[2] z) {
                same = BitCast <to = 3> (x)
                y = Cast <to = 6> (same)
                z = BitCast <to = 2> (b)
            }""",
            feeds={"x": np.array([255, 128, 127], np.uint8), "b": np.array([True, False])},
            reference=True,
        ),
    ),
}
