"""Layers that TensorRT fuses all run, and an engine without its bias is found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

pytest.importorskip("torch")

from gpucheck import engine_tables, fused_layers
from gpucheck.engines import OpenEngine
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run


def opener(change: Callable[[onnx.ModelProto], None] = lambda proto: None) -> Any:
    """onnxruntime in the place of an engine; `change` is made to the graph."""

    def make(path: Path, sizes: Any, io_types: Any) -> OpenEngine:
        model = load_model(path)
        proto = onnx.ModelProto()
        proto.CopyFrom(model.proto)
        change(proto)
        changed: Model = model.with_proto(proto)
        return OpenEngine(lambda feeds: run(changed, feeds, optimise=False), lambda: None)

    return make


@pytest.mark.parametrize("product", fused_layers.PRODUCTS)
def test_every_layer_runs_and_is_written_right(product: str, tmp_path: Path) -> None:
    found = fused_layers.measure(f"fp32|{product}|3", tmp_path, opener())
    assert len(found["errors"]) >= 10 and max(found["errors"].values()) < 1e-5


def test_a_bias_that_is_left_out_is_found(tmp_path: Path) -> None:
    def without_bias(proto: onnx.ModelProto) -> None:
        for node in proto.graph.node:
            if node.op_type == "Conv":
                del node.input[2:]

    errors = fused_layers.measure("fp16|Conv 1x1|0", tmp_path, opener(without_bias))["errors"]
    assert np.median(list(errors.values())) > 0.3
    assert sum(error > fused_layers.ALLOWED["bf16"] for error in errors.values()) > 0.9 * len(errors)


def test_the_table_has_a_row_for_each_product_and_precision() -> None:
    row = {"product": "Gemm", "layers": 9, "wrong": 1}
    rows = [{**row, "form": "bf16", "worst": 2e-2}, {**row, "form": "fp32", "worst": None}]
    assert engine_tables.layer_rows(rows) == [
        ("Gemm", "fp32", "9", "1", ""),
        ("Gemm", "bf16", "9", "1", "2.0e-02"),
    ]
