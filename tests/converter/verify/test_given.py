"""Inputs and expected outputs from files."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from trtsmith.converter.model.arrays import load_arrays
from trtsmith.converter.model.errors import UsageError
from trtsmith.converter.model.shapes import InputSpec
from trtsmith.converter.verify.given import load_expected, load_inputs

A = np.linspace(1, 2, 12, dtype=np.float32).reshape(3, 4)


def written(path: Path, kind: str) -> Path:
    np.savez(path, x=A)
    whole = path.read_bytes()
    if kind == "text":
        path.write_text("hello")
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "truncated":
        path.write_bytes(whole[: len(whole) // 2])
    elif kind == "flipped":
        path.write_bytes(bytes(b ^ 0xFF if i == 60 else b for i, b in enumerate(whole)))
    elif kind == "pickle":
        np.savez(path, x=np.array([{}], object))
    elif kind == "one array":
        with path.open("wb") as stream:
            np.save(stream, A)
    elif kind == "not arrays":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x", "hello")
    elif kind == "bad member":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x.npy", b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'shape': (10**15,)}")
    elif kind == "folder":
        path.unlink()
        path.mkdir()
    return path


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("text", "it is not such a file"), ("empty", "No data left"), ("truncated", "zip"), ("flipped", "CRC"),
        ("pickle", "it holds Python objects, not numbers"), ("one array", "it is a single array"),
        ("not arrays", "its member 'x' is not an array"), ("bad member", ""), ("folder", "directory"),
    ],
)  # fmt: skip
def test_files_that_are_no_arrays(kind: str, words: str, tmp_path: Path) -> None:
    path = written(tmp_path / "a.npz", kind)
    with pytest.raises(UsageError, match="the file cannot be read") as error:
        load_arrays(path, "--inputs")
    (problem,) = error.value.problems
    assert words in problem.what and problem.where == f"--inputs {path}"


def test_inputs_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, x=A, other=A)
    specs = [InputSpec("x", "float32", (None, 4), ("n", ""))]
    assert {n: a.shape for n, a in load_inputs(path, specs).items()} == {"x": (3, 4)}
    wrong = [
        InputSpec("z", "float32", (), ()),
        InputSpec("x", "float64", (None, 4), ("n", "")),
        InputSpec("other", "float32", (3, 4, 1), ("", "", "")),
    ]
    with pytest.raises(UsageError) as error:
        load_inputs(path, wrong)
    assert [(p.what, p.expected) for p in error.value.problems] == [
        ("no array for input 'z'", "an array 'z'"),
        ("input 'x' is float32[3, 4]", "float64[n, 4]"),
        ("input 'other' is float32[3, 4]", "float32[3, 4, 1]"),
    ]


def test_expected_outputs_are_all_of_them_and_no_others(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, b=A, a=A)
    assert list(load_expected(path, ["a", "b"])) == ["a", "b"]
    with pytest.raises(UsageError) as error:
        load_expected(path, ["a", "c"])
    assert [p.what for p in error.value.problems] == [
        "no array for output 'c'", "the model has no output 'b'",
    ]  # fmt: skip
