"""Holds GatedRecurrence to its definition: expansion, PyTorch form, compiled plugin and example against the reference."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from gated_recurrence import OPERATORS

from trtsmith import testing
from trtsmith.importers.opdef import Case, OpDef

FOLDER = Path(__file__).resolve().parents[1]
LIBRARY = FOLDER / "gated_recurrence" / "lib" / "libgated_recurrence_plugins.so"

each_case = testing.each_case(OPERATORS)


@each_case
def test_the_definition_is_consistent(op: OpDef, case: Case) -> None:
    testing.check_definition(op, case)


@each_case
def test_the_expansion_gives_what_the_reference_does(op: OpDef, case: Case) -> None:
    testing.check_expansion(op, case)


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
@each_case
def test_pytorch_gives_what_the_reference_does(op: OpDef, case: Case) -> None:
    testing.check_torch(op, case)


def test_shapes_that_do_not_fit_are_named() -> None:
    (op,) = OPERATORS
    shapes = {"x": (2, 5, 4), "gate": (2, 6, 4), "initial": (2, 4)}
    assert op.check({"reverse": 0}, shapes) == ["gate (2, 6, 4) does not fit x, of which dimension 1 is 5"]


def test_the_compiled_plugin_keeps_the_contract() -> None:
    """And with a GPU its kernel gives what the reference does, in every case and type."""
    testing.check_library(LIBRARY, OPERATORS)


def test_the_example_is_taken() -> None:
    testing.check_example(FOLDER / "example.onnx", FOLDER)
