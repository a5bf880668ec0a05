"""The functions for testing operators fail for wrong definitions, expansions, PyTorch forms and libraries."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.converter.plugin.fixtures import library
from trtsmith import testing
from trtsmith.importers.opdef import Case, OpDef
from trtsmith.importers.registry import OPS

OP = next(op for op in OPS if op.tolerance and op.torch_reference is not None and not op.data_dependent)
CASE = next(case for case in OP.cases if not case.large and case.name == "one_of_each")


def test_a_right_definition_passes() -> None:
    for case in (case for case in OP.cases[:2] if not case.large):
        testing.check_definition(OP, case)
        testing.check_expansion(OP, case)
        testing.check_torch(OP, case)


def test_every_small_case_is_one_test() -> None:
    mark = testing.each_case([OP])
    assert [parameter.id for parameter in mark.args[1]] == [
        f"{OP.name}-{case.name}" for case in OP.cases if not case.large
    ]


def other_reference(fields: Any, inputs: Any) -> dict[str, np.ndarray]:
    return {name: 1.5 * array + 0.5 for name, array in OP.reference(fields, inputs).items()}


def other_shape(fields: Any, shapes: Any) -> Any:
    return {name: tuple(size + 1 for size in shape) for name, shape in OP.shape(fields, shapes).items()}


WRONG: dict[str, tuple[OpDef, str]] = {
    "check_expansion": (replace(OP, reference=other_reference), "differs by"),
    "check_torch": (replace(OP, reference=other_reference), "differs from the reference"),
    "check_definition": (replace(OP, shape=other_shape), "the shape rule of"),
}


@pytest.mark.parametrize("function", WRONG)
def test_a_wrong_one_does_not(function: str) -> None:
    op, words = WRONG[function]
    with pytest.raises(AssertionError, match=words):
        getattr(testing, function)(op, CASE)


def test_fields_that_are_not_allowed() -> None:
    with pytest.raises(AssertionError, match="unknown field"):
        testing.check_definition(OP, Case("odd", {**CASE.fields, "odd": 1}, CASE.inputs))


def test_a_library_that_is_not_there_or_lacks_the_operator(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="run trtsmith op build"):
        testing.check_library(tmp_path / "lib.so", [OP])
    stranger = replace(OP, name="NobodyHasIt", cases=())
    with pytest.raises(AssertionError, match="the library lacks NobodyHasIt"):
        testing.check_library(library("good_v3"), [stranger], gpu=False)


def test_errors_that_hide_behind_values_that_are_not_finite() -> None:
    right = np.array([1.0, np.nan, np.inf])
    assert testing.relative_error(right, right) == 0
    assert testing.relative_error(np.array([1.0, 1.0, np.inf]), right) == np.inf
    assert testing.relative_error(right[:2], right) == np.inf
