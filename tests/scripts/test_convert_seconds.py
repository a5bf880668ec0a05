"""The script that times conversions beside TensorRT's own import, and its committed record."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

import convert_seconds


def test_a_row_of_one_network(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = '<ir_version: 10, opset_import: ["" : 20]> g (float[1,8] x) => (float[1,8] y) { y = Tanh (x) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "tanh.onnx")
    x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(1, 8)
    np.savez(tmp_path / "tanh.npz", x=x)
    np.savez(tmp_path / "tanh.expected.npz", y=np.tanh(x))
    assert convert_seconds.main([str(tmp_path), "--only", "tanh"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["network"] == "tanh" and min(row["import"], row["float32"], row["float16"]) > 0
    assert row["float32_exit_code"] == row["float16_exit_code"] == 0 and row["met"] == {}


def test_the_record_has_verdicts_and_seconds_of_every_network() -> None:
    rows = json.loads(convert_seconds.RECORD.read_text(encoding="utf-8"))["rows"]
    assert len(rows) == 12 and all(row["import"] > 0 and row["float16"] > 0 for row in rows)
    codes = [row[f"{name}_exit_code"] for row in rows for name in convert_seconds.FLAGS]
    assert set(codes) <= {0, 3, 4} and codes.count(0) > 20
