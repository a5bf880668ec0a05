"""Inputs and expected outputs from files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from trtsmith.converter.model.errors import UsageError
from trtsmith.converter.model.shapes import InputSpec
from trtsmith.converter.verify.given import load_expected, load_inputs

A = np.linspace(1, 2, 12, dtype=np.float32).reshape(3, 4)


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
