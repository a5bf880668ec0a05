"""Models that the rule determinant takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example


def _matrices(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape[-1]).normal(size=shape).astype(np.float32)


_SINGULAR = np.array([[[0, 0], [0, 0]], [[0, 3], [2, 5]], [[1, 2], [2, 4]]], np.float32)


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "determinant": (
        *(
            Example(
                name,
                f"""<ir_version: 8, opset_import: ["" : {opset}]>
                g ({dtype}[{", ".join(map(str, x.shape))}] x) => ({dtype}{list(x.shape[:-2]) or ""} y) {{
                    y = Det (x)
                }}""",
                feeds={"x": x},
                rtol=1e-4 if dtype == "float" else 1e-3,
                reference=dtype != "float",
            )
            for name, opset, dtype, x in (
                ("one", 11, "float", _matrices(3, 1, 1)),
                ("singular", 11, "float", _SINGULAR),
                ("five", 13, "float", _matrices(2, 3, 5, 5)),
                ("single", 22, "float", _matrices(4, 4)),
                ("no rows", 11, "float", _matrices(3, 0, 0)),
                ("a single one without rows", 22, "float", _matrices(0, 0)),
            )
        ),
    ),
}
