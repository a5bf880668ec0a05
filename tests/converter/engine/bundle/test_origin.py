"""A manifest's facts on its engine's model survive a round trip; edited manifests are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.converter.models import inverse
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.engine.bundle.origin import EngineOrigin, FrozenInput, origin_facts, origin_of
from trtsmith.converter.model.load import load_model

VALUES = {
    "axes": np.array([0, -1]),
    "ratio": np.array(0.1, np.float32),
    "half": np.array([1.5, 2.25], ml_dtypes.bfloat16),
    "grid": np.random.default_rng(0).standard_normal((40, 40)).astype(np.float32),
}


def written(folder: Path, **changes: Any) -> Path:
    facts = origin_facts(load_model(inverse(folder / "m.onnx")), VALUES, "m.onnx") | changes
    (folder / "e.manifest.json").write_text(json.dumps(facts))
    return folder / "e.plan"


def test_what_is_written_is_read(tmp_path: Path) -> None:
    origin = origin_of(written(tmp_path, precision={"precision": "float16", "reduced": 3}))
    assert origin.precision == "float16" and origin.fingerprint.startswith("sha256:")
    assert [entry.name for entry in origin.frozen] == list(VALUES)
    for entry in origin.frozen:
        assert entry.matches(VALUES[entry.name]) and not entry.matches(VALUES[entry.name] + 1)
        assert not entry.matches(VALUES[entry.name].reshape(-1, 1))
        array = entry.array()
        if entry.name == "grid":
            assert array is None
        else:
            assert array is not None and array.dtype == VALUES[entry.name].dtype
            assert np.array_equal(array, VALUES[entry.name])


def test_the_precision_may_be_a_word_or_nothing(tmp_path: Path) -> None:
    found = [origin_of(written(tmp_path, precision=p)).precision for p in ("bf16", None)]
    assert found == ["bf16", "float32"] and origin_of(written(tmp_path)).precision == "float32"


def test_without_a_manifest_nothing_is_said(tmp_path: Path) -> None:
    assert origin_of(tmp_path / "e.plan") == EngineOrigin()


@pytest.mark.parametrize(
    "changes",
    [
        {"frozen": [{"name": "k"}]},
        {"frozen": 3},
        {"model": 3},
        {"precision": {}},
        {"frozen": [{"name": "k", "dtype": "int64", "shape": [2], "sha256": "x", "value": [1]}]},
        {"frozen": [{"name": "k", "dtype": "int64", "shape": [1], "sha256": "x", "value": [1]}]},
        {"frozen": [{"name": "k", "dtype": "nonsense", "shape": [1], "sha256": "x", "value": [1]}]},
    ],
)
def test_manifests_that_others_have_touched(changes: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="The engine's manifest cannot be read"):
        origin_of(written(tmp_path, **changes))
    (tmp_path / "e.manifest.json").write_text("[1]")
    with pytest.raises(UsageError):
        origin_of(tmp_path / "e.plan")


def test_a_value_of_1_kib_is_kept_as_its_hash() -> None:
    assert FrozenInput.of("a", np.zeros(127)).value is not None
    assert FrozenInput.of("a", np.zeros(128)).value is None
