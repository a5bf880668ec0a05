"""Fingerprints distinguish models by the content of their files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.converter.models import parsed, written
from trtsmith.converter.model import fingerprint as module
from trtsmith.converter.model.fingerprint import fingerprint
from trtsmith.converter.model.load import load_model


def weighted(path: Path, seed: int) -> Path:
    weights = {"w": np.random.default_rng(seed).standard_normal((64, 64)).astype(np.float32)}
    text, data = "(float[1, 64] x) => (float[1, 64] y) { y = MatMul (x, w) }", path.with_suffix(".data")
    model = onnx.load(written(path, text, weights))
    data.unlink(missing_ok=True)
    onnx.save(model, path, save_as_external_data=True, location=data.name, size_threshold=0)
    return path


@pytest.mark.parametrize("whole", [True, False])
def test_weights_beside_the_model_count(whole: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not whole:
        monkeypatch.setattr(module, "_WHOLE", 1000)
        monkeypatch.setattr(module, "_SAMPLE", 16)
    first = fingerprint(load_model(weighted(tmp_path / "a.onnx", 1)))
    assert first.startswith("sha256:") and len(first) == 71
    assert fingerprint(load_model(weighted(tmp_path / "a.onnx", 1))) == first
    assert fingerprint(load_model(weighted(tmp_path / "a.onnx", 2))) != first
    longer = weighted(tmp_path / "a.onnx", 1).with_suffix(".data")
    longer.write_bytes(longer.read_bytes() + b"\0")
    assert fingerprint(load_model(tmp_path / "a.onnx")) != first


def test_the_name_of_the_model_file_does_not_count(tmp_path: Path) -> None:
    first, other = (
        parsed(tmp_path / name, "(float[1] x) => (float[1] y) { y = Abs (x) }") for name in ("a", "b")
    )
    assert fingerprint(first) == fingerprint(other)
