"""Engines in each precision, without plugins, so that any TensorRT-RTX can run them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.converter.rewrite.precision.networks import network, normal
from trtsmith.converter.cli.main import main
from trtsmith.converter.model.save import save_model

BODY = """(float[N,3,64,64] x) => (float[N,10] y) {
    [c1] a = Conv <pads = [1,1,1,1], strides = [2,2]> (x, k1)
    [r1] b = Relu (a)
    [c2] c = Conv <pads = [1,1,1,1], strides = [2,2]> (b, k2)
    [r2] d = Relu (c)
    [pool] e = GlobalAveragePool (d)
    [flat] f = Flatten (e)
    [fc] g = Gemm (f, w)
    [soft] y = Softmax (g) }"""


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16"])
def test_an_engine_of_the_precision_agrees_with_onnxruntime(tmp_path: Path, precision: str) -> None:
    weights = {
        "k1": normal(16, 3, 3, 3, scale=0.27),
        "k2": normal(32, 16, 3, 3, scale=0.12),
        "w": normal(32, 10),
    }
    save_model(network(tmp_path, BODY, weights), tmp_path / "net.onnx")
    np.savez(tmp_path / "in.npz", x=normal(4, 3, 64, 64))
    engine = tmp_path / "net.plan"
    arguments = ["--precision", precision, "--verify", "engine", "--inputs", str(tmp_path / "in.npz")]
    arguments += ["--shapes", "x=1x3x64x64:4x3x64x64:8x3x64x64"]
    assert main(["convert", str(tmp_path / "net.onnx"), "-o", str(engine), *arguments]) == 0
    manifest = json.loads((tmp_path / "net.manifest.json").read_text())
    assert manifest["verdict"]["engine_run"] and manifest["verdict"]["status"] == "agree"
    assert manifest["precision"] == precision
