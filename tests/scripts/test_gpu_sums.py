"""Layers that show the type of sums of products: graphs, errors, and contradictions to the precision pass."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from gpucheck.engines import NOT_BUILT, EngineError, OpenEngine
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.precision.emulate import emulated
from trtsmith.converter.rewrite.precision.formats import FORMATS

pytest.importorskip("torch")

from gpucheck import engine_tables, product_sums

SMALL = [layer for layer in product_sums.LAYERS if layer.products <= 256]


def engine_of(change: Callable[[np.ndarray], np.ndarray]) -> Any:
    """An engine that sums in float32 and rounds once; then `change`."""

    def opener(path: Path, sizes: Any, io_types: Any) -> OpenEngine:
        model = load_model(path)
        (shape,) = {tuple(s) for s in sizes["x"].shapes}
        dtype = onnx.helper.tensor_dtype_to_np_dtype(model.proto.graph.input[0].type.tensor_type.elem_type)

        def infer(feeds: Any) -> dict[str, np.ndarray]:
            assert feeds["x"].shape == shape and feeds["x"].dtype == dtype
            found = run(emulated(model), {"x": feeds["x"].astype(np.float32)}, optimise=False)
            return {"y": change(found["y"]).astype(dtype)}

        return OpenEngine(infer, lambda: None)

    return opener


@pytest.mark.parametrize("flag", FORMATS)
@pytest.mark.parametrize("layer", SMALL, ids=[layer.name for layer in SMALL])
def test_sums_in_float32_cost_what_rounding_does(layer: Any, flag: str, tmp_path: Path) -> None:
    row = product_sums.measure(layer, flag, tmp_path, engine_of(lambda y: y))
    assert row["problem"] == "" and 0.9 < row["error"] / row["rounding"] < 1.1
    assert 1e-5 < row["error"] < 2 * 2.0 ** -FORMATS[flag].digits


def test_what_contradicts_the_pass_is_told(tmp_path: Path) -> None:
    noise = np.random.default_rng(0)

    def off(scale: float) -> Any:
        return engine_of(lambda y: y + scale * y.std() * noise.standard_normal(y.shape).astype(np.float32))

    short, long = (next(la for la in product_sums.LAYERS if la.name == f"MatMul {n}") for n in (64, 1024))
    told = product_sums.measure(short, "fp16", tmp_path, off(1.5e-3))["problem"]
    assert "of 64 products in float16" in told
    assert product_sums.measure(short, "fp16", tmp_path, off(3e-4))["problem"] == ""
    assert (
        product_sums.measure(long, "fp16", tmp_path, off(1.5e-3))["problem"] == ""
    )  # kept in float32 anyway
    assert "sums in float32" in product_sums.measure(long, "bf16", tmp_path, off(4e-3))["problem"]

    shown = next(layer for layer in product_sums.LAYERS if layer.name.startswith("Conv 1x1, with a bias"))
    assert product_sums.measure(shown, "bf16", tmp_path, off(4e-3))["problem"] == ""

    def refuse(*_: Any) -> OpenEngine:
        raise EngineError(NOT_BUILT, "no layer")

    assert product_sums.measure(short, "fp16", tmp_path, refuse)["problem"] == "not built: no layer"


def test_the_table_is_sorted_and_says_what_was_not_built() -> None:
    rows = [
        {"layer": "MatMul", "products": 64, "precision": "bf16", "error": 2e-3, "rounding": 1e-3},
        {"layer": "MatMul", "products": 64, "precision": "fp16", "problem": "not built: no layer"},
        {"layer": "Conv 1x1", "products": 0, "precision": "fp16", "error": 3e-4, "rounding": 2e-4},
    ]
    assert engine_tables.sum_rows(rows) == [
        ("Conv 1x1", "", "fp16", "3.0e-04", "2.0e-04", "1.5"),
        ("MatMul", "64", "fp16", "", "", "not built: no layer"),
        ("MatMul", "64", "bf16", "2.0e-03", "1.0e-03", "2.0"),
    ]
