"""Weights that a half-precision export made infinite are named; masks and constants of infinity are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.converter.models import parsed
from trtsmith.converter.convert.analysis import AnalysisOptions, analyse

INF = np.inf
SCALES = [[INF, -INF], [1.0, 2.0]]


@pytest.mark.parametrize(
    ("kind", "values", "told"),
    [
        ("float16", np.array(SCALES, np.float16), "2 infinite values: "),
        ("float16", np.tile(np.array(SCALES, np.float16), (500, 2)), "2,000 infinite values: "),
        ("bfloat16", np.array([INF, 1], ml_dtypes.bfloat16), "1 infinite value: "),
        ("float", np.array(SCALES, np.float32), ""),
        ("float16", np.array([-INF, 0], np.float16), ""),
        ("float16", np.array([INF], np.float16), ""),
    ],
)
def test_infinite_values_among_others(
    tmp_path: Path, kind: str, values: np.ndarray[Any, Any], told: str
) -> None:
    shape = ", ".join(map(str, values.shape))
    text = f"({kind}[{shape}] x) => ({kind}[{shape}] y) {{ a = Mul (x, w) y = Mul (a, v) }}"
    model = parsed(tmp_path / "m.onnx", text, {"w": values, "v": np.ones_like(values)})
    warnings = analyse(model, AnalysisOptions()).plan.warnings
    assert [one.partition("its type")[0] for one in warnings] == [f"initializer 'w' has {told}"] * bool(told)


def test_further_weights_are_counted(tmp_path: Path) -> None:
    text = "(float16[2] x) => (float16[2] y) { a = Mul (x, w) y = Mul (a, v) }"
    values = np.array([INF, 1], np.float16)
    model = parsed(tmp_path / "m.onnx", text, {"w": values, "v": values})
    (warning,) = analyse(model, AnalysisOptions()).plan.warnings
    assert warning.startswith(
        "initializer 'w' has 1 infinite value, and 1 other initializer has some: its type"
    )
    assert warning.endswith("export the model in float32")
