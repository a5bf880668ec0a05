"""Arrays in files: whole or not at all, and types that numpy's files have no name for."""

from __future__ import annotations

import os
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from converter.arrays import as_declared, load_arrays, save_arrays
from converter.errors import UsageError
from converter.shapes import InputSpec
from converter.verify import load_inputs


def test_written_arrays_come_back(tmp_path: Path) -> None:
    path = tmp_path / "out.npz"
    arrays = {
        "file": np.arange(6, dtype=np.int64).reshape(2, 3),
        "a/b:0": np.array(1.5, np.float32),
        "none": np.empty((0, 4), np.float16),
        "mask": np.array([True, False]),
        "half": np.array([1, 2.5], ml_dtypes.bfloat16),
        "small": np.array([1, -2], ml_dtypes.float8_e4m3fn),
    }
    save_arrays(path, arrays, "-o")
    back = load_arrays(path, "--inputs")
    assert list(back) == list(arrays)
    for name in ("file", "a/b:0", "none", "mask"):
        assert back[name].dtype == arrays[name].dtype and back[name].shape == arrays[name].shape
        np.testing.assert_array_equal(back[name], arrays[name])
    assert back["half"].view(ml_dtypes.bfloat16).tolist() == [1, 2.5]
    assert as_declared(back["small"], "float8_e4m3fn").tolist() == [1, -2]


def test_numpys_own_files_of_bfloat16_are_inputs(tmp_path: Path) -> None:
    path = tmp_path / "in.npz"
    np.savez(path, x=np.array([[1, 2.5, 3]], ml_dtypes.bfloat16))
    fed = load_inputs(path, [InputSpec("x", "bfloat16", (None, 3), ("n", ""))])
    assert fed["x"].dtype == ml_dtypes.bfloat16 and fed["x"].tolist() == [[1, 2.5, 3]]
    with pytest.raises(UsageError, match=r"V2\[1, 3\]"):
        load_inputs(path, [InputSpec("x", "float32", (None, 3), ("n", ""))])


def test_only_bytes_without_a_type_are_taken_for_another() -> None:
    half = np.array([1], np.float16)
    assert as_declared(half, "bfloat16") is half
    for array, dtype in (
        (np.zeros(2, "V2"), "float32"),
        (np.zeros(2, "V4"), "bfloat16"),
        (np.zeros(1, [("a", "u1"), ("b", "u1")]), "bfloat16"),
        (np.ones(1, ml_dtypes.bfloat16), "float16"),
        (np.zeros(1, "V8"), "object"),
    ):
        assert as_declared(array, dtype) is array


def test_failure_keeps_the_file_that_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "out.npz"
    path.write_bytes(b"older")
    monkeypatch.setattr(np.lib.format, "write_array", full)
    with pytest.raises(UsageError, match="No space left") as error:
        save_arrays(path, {"y": np.ones(3)}, "-o")
    assert error.value.problems[0].where == f"-o {path}"
    assert path.read_bytes() == b"older" and os.listdir(tmp_path) == ["out.npz"]
