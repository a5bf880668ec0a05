"""Array files are written completely or not at all, also for types that numpy's files cannot name."""

from __future__ import annotations

import os
import pickle
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from trtsmith.converter.base import arrays as arrays_module
from trtsmith.converter.base.arrays import as_declared, load_array, load_arrays, save_arrays
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.options.shapes import InputSpec
from trtsmith.converter.verify.given import load_inputs


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


HEADER = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3), }"


def npy(header: str = HEADER, data: bytes = bytes(12)) -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode("latin1") + data


def zipped(path: Path, *members: tuple[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", compression) as archive:
        warnings.simplefilter("ignore")  # of a name that is there twice
        for name, data in members:
            archive.writestr(name, data)
    return path


def reason(path: Path, load: Callable[[Path, str], object] = load_arrays) -> str:
    with pytest.raises(UsageError) as error:
        load(path, "--inputs")
    (problem,) = error.value.problems
    assert problem.where in (f"--inputs {path}", f"--inputs @{path}") and len(problem.what) < 400
    return problem.what


def test_the_helpers_make_sound_files(tmp_path: Path) -> None:
    assert load_arrays(zipped(tmp_path / "x.npz", ("x.npy", npy())), "")["x"].tolist() == [[0, 0, 0]]


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("(" * 9000, ""),
        ("{'descr': \n", ""),
        ('"""abc', ""),
        (HEADER.replace("(1, 3)", f"({2**80},)"), ""),
        (HEADER.replace("(1, 3)", "(1099511627776,)"), "Unable to allocate"),
        (HEADER.replace("'<f4'", "[" * 500 + "]" * 500), "Cannot parse header"),
        (HEADER.replace("<f4", "|O"), "Python objects"),
    ],
)
def test_headers_that_are_none(tmp_path: Path, header: str, words: str) -> None:
    assert words in reason(zipped(tmp_path / "x.npz", ("x.npy", npy(header))))
    (tmp_path / "x.npy").write_bytes(npy(header))
    assert words in reason(tmp_path / "x.npy", load_array)


def test_other_files_are_called_so(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a text")
    (tmp_path / "pickle").write_bytes(pickle.dumps([1]))
    for name in ("text", "pickle"):
        assert "it is not such a file" in reason(tmp_path / name)
        assert "it is not such a file" in reason(tmp_path / name, load_array)
    (tmp_path / "empty").touch()
    (tmp_path / "one").write_bytes(npy())
    (tmp_path / "cut").write_bytes(zipped(tmp_path / "x", ("x.npy", npy())).read_bytes()[:60])
    zipped(tmp_path / "letter", ("x", b"hello"))
    for name, words in (
        ("empty", "it is empty"), ("one", "it is a single array"), ("cut", "it is cut short"), ("", "directory"),
        ("letter", "its member 'x' is not an array"), ("none", "the file cannot be read: No such file or directory"),
    ):  # fmt: skip
        assert words in reason(tmp_path / name)


def test_damaged_members(tmp_path: Path) -> None:
    for compression in (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        path = zipped(tmp_path / "x.npz", ("x.npy", npy()), compression=compression)
        data = bytearray(path.read_bytes())
        data[50:60] = bytes(byte ^ 0xFF for byte in data[50:60])
        path.write_bytes(data)
        reason(path)


def test_two_arrays_of_one_name(tmp_path: Path) -> None:
    for other in ("x.npy", "x"):
        path = zipped(tmp_path / "x.npz", ("x.npy", npy()), (other, npy()))
        assert "two of its arrays have the name 'x'" in reason(path)


def test_what_unpacks_to_more_than_memory_is_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "zeros.npz"
    np.savez_compressed(path, a=np.zeros(1 << 19, np.uint8), b=np.zeros(1 << 19, np.uint8))
    assert path.stat().st_size < 1 << 12
    monkeypatch.setattr(arrays_module, "_memory", lambda: (1 << 20) + 4096)
    load_arrays(path, "--inputs")
    monkeypatch.setattr(arrays_module, "_memory", lambda: 1 << 20)
    assert "memory is 0.0 GiB" in reason(path)
