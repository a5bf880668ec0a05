"""Models that the rule bitwise takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example
from trtsmith.converter.rewrite.rules.bits.legal_integers import LEGAL_INTEGERS


def _random(dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """All bits random, and both ends of the type."""
    info = np.iinfo(dtype)
    values = np.random.default_rng(seed).integers(info.min, info.max, shape, dtype, endpoint=True)
    values.reshape(-1)[:2] = info.min, info.max
    return values


def _example(op_type: str, dtype: str) -> Example:
    shapes = {"x": (3, 1, 5), "z": (2, 5)}
    return Example(
        f"{op_type}-{dtype}",
        f"""<ir_version: 9, opset_import: ["" : 20]>
        g ({dtype}[3, 1, 5] x, {dtype}[2, 5] z) => ({dtype}[3, 2, 5] y) {{ y = {op_type} (x, z) }}""",
        feeds={name: _random(dtype, shape, seed) for seed, (name, shape) in enumerate(shapes.items())},
        reference=True,
    )


_EXAMPLES = (
    *(_example("BitwiseAnd", dtype) for dtype in LEGAL_INTEGERS),
    *(_example(op_type, dtype) for op_type in ("BitwiseOr", "BitwiseXor") for dtype in ("int32", "uint64")),
    *(
        Example(
            f"not-{dtype}",
            f"""<ir_version: 9, opset_import: ["" : 18]>
            g ({dtype}[3, 4] x) => ({dtype}[3, 4] y) {{ y = BitwiseNot (x) }}""",
            feeds={"x": _random(dtype, (3, 4), 5)},
            reference=True,
        )
        for dtype in ("int64", "uint32", "uint64")
    ),
    *(
        Example(
            f"mask-{dtype}",
            f"""<ir_version: 9, opset_import: ["" : 18]>
            g ({dtype}[4, 3] x) => ({dtype}[4, 3] y, {dtype}[4, 3] z, {dtype}[4, 3] w)
            <{dtype}[3] low = {{15, 0, 127}}, {dtype}[3] high = {{{high}}}, {dtype} single = {{1}}> {{
                y = BitwiseAnd (x, low)
                z = BitwiseXor (high, x)
                w = BitwiseOr (x, single)
            }}""",
            feeds={"x": _random(dtype, (4, 3), 6)},
            reference=True,
        )
        for dtype, high in (
            ("int32", "-16, -1, -1073741824"),
            ("int64", "-16, -1, -4611686018427387904"),
            ("uint8", "240, 255, 128"),
            ("uint32", "4294967280, 4294967295, 2147483648"),
        )
    ),
    Example(
        "other-bits",
        """<ir_version: 9, opset_import: ["" : 18]>
        g (int64[4, 3] x) => (int64[4, 3] y) <int64[3] masks = {-16, 240, 9223372036854775807}> {
            y = BitwiseAnd (masks, x)
        }""",
        feeds={"x": _random("int64", (4, 3), 7)},
        reference=True,
    ),
)


EXAMPLES = {"bitwise": _EXAMPLES}
