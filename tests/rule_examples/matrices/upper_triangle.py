"""Models that the rule upper-triangle takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example


def _example(name: str, kind: str, shape: str, k: int | None, opset: int = 14) -> Example:
    weights = "" if k is None else f"<int64 k = {{{k}}}>"
    return Example(
        name,
        f"""<ir_version: 8, opset_import: ["" : {opset}]>
        g ({kind}{shape} x) => ({kind}{shape} y) {weights} {{ y = Trilu (x{"" if k is None else ", k"}) }}""",
        reference=kind in ("bool", "int32"),  # onnxruntime has no Trilu of these
    )


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "upper-triangle": (
        _example("int64", "int64", "[4, 5]", None),
        _example("stack, k above", "float", "[2, 3, 4, 3]", 1),
        _example("k below", "float16", "[5, 4]", -2),
        _example("k beyond", "int32", "[3, 4]", 6),
        _example("bool", "bool", "[3, 4]", 1),
        Example(
            "k of run time",
            """<ir_version: 8, opset_import: ["" : 14]> g (float[3, 4] x, int64 k) => (float[3, 4] y) {
                y = Trilu (x, k)
            }""",
            feeds={"k": np.array(2)},
        ),
    ),
}
