"""Engines of another model: every difference is reported in four parts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.converter.models import parsed
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.engine.runtime.tensors import EngineInfo, TensorSpec
from trtsmith.converter.rewrite.types import IoType
from trtsmith.converter.verify.verify_bundle import check_interface
from trtsmith.importers.problem import Problem

TEXT = """(float[N, 3] x, int64[2] unused, double[4] d) => (float[N, 3] y, double[4] e) { y = Neg (x) e = Neg (d) }"""
X = TensorSpec("x", "float32", (-1, 3), True)
D = TensorSpec("d", "float32", (4,), True)
Y = TensorSpec("y", "float32", (-1, 3), False)
E = TensorSpec("e", "float32", (4,), False)
IO_TYPES = (IoType("d", "float64", "float32"), IoType("e", "float64", "float32"))


def problems(
    folder: Path, inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...], *frozen: str
) -> list[str]:
    info = EngineInfo("tensorrt", "10", "gpu", "9.0", inputs, outputs, 1, 0)
    found: tuple[Problem, ...] = ()
    try:
        check_interface(parsed(folder / "m.onnx", TEXT), Path("e.plan"), info, IO_TYPES, frozen)
    except UsageError as error:
        found = error.problems
    assert all(p.where == "e.plan" and p.expected and "manifest" in p.fix for p in found)
    return [problem.what for problem in found]


def test_what_is_cast_frozen_or_unread_may_differ(tmp_path: Path) -> None:
    assert problems(tmp_path, (X, D), (Y, E)) == []
    assert problems(tmp_path, (replace(X, shape=(7, 3)), D), (Y, E)) == []
    assert problems(tmp_path, (X,), (Y, E), "d") == []
    assert problems(tmp_path, (X, D, TensorSpec("unused", "int64", (2,), True)), (Y, E)) == []


@pytest.mark.parametrize(
    ("inputs", "outputs", "what"),
    [
        ((D,), (Y, E), "the engine has no input 'x'"),
        ((X, D), (Y,), "the engine has no output 'e'"),
        ((X, D, replace(X, name="z")), (Y, E), "the engine has an input 'z', which the model lacks"),
        ((X, D), (Y, E, replace(Y, name="z")), "the engine has an output 'z', which the model lacks"),
        ((replace(X, dtype="float16"), D), (Y, E), "input 'x' is float16 in the engine"),
        ((X, D), (Y, replace(E, dtype="float64")), "output 'e' is float64 in the engine"),
        ((replace(X, shape=(-1, 4)), D), (Y, E), "input 'x' is float32[?, 4] in the engine"),
        ((replace(X, shape=(-1, 3, 1)), D), (Y, E), "input 'x' is float32[?, 3, 1] in the engine"),
    ],
)
def test_differences(
    inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...], what: str, tmp_path: Path
) -> None:
    assert problems(tmp_path, inputs, outputs) == [what]


def test_all_differences_at_once(tmp_path: Path) -> None:
    assert len(problems(tmp_path, (replace(X, name="a"),), (replace(Y, name="b"),))) == 6
