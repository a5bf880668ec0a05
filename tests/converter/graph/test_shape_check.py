"""Nodes are inferred one by one where a model declares wrong shapes."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.converter.models import parsed
from trtsmith.converter.base.errors import InvalidModelError
from trtsmith.converter.graph.type_check import infer_checked
from trtsmith.converter.model.model import Model

BRANCHES = """
y = If (c) <then_branch = a () => (float p) { p = Neg (k) },
            else_branch = b () => (float q) { q = Abs (k) }>"""
"""They say that they have no dimensions; k has one."""


def model(folder: Path, resize: str) -> Model:
    text = f"""(float[1, 1, 4, 4] x, bool c, float[1] k) => (float[1, 1, 8, 8] r, float[n] z)
        <float[0] none = {{}}, float[4] half = {{1, 1, 2, 2}}, int64[4] sizes = {{1, 1, 8, 8}}> {{
        r = Resize <mode = "nearest"> (x, {resize}) {BRANCHES} z = Neg (y) }}"""
    return parsed(folder / "m.onnx", text, opset=14)


def test_an_empty_constant_is_an_input_that_is_left_out(tmp_path: Path) -> None:
    """As exporters wrote a Resize by sizes before inputs could be left out."""
    infer_checked(model(tmp_path, "none, none, sizes"))


def test_scales_and_sizes_together_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidModelError, match="but not both of them"):
        infer_checked(model(tmp_path, "none, half, sizes"))


@pytest.mark.parametrize("columns", [3, 5])
def test_what_a_model_states_wrongly_of_a_value_is_no_fault_of_nodes(columns: int, tmp_path: Path) -> None:
    """onnxruntime goes by what nodes make, and takes the model if that fits: x has three columns."""
    text = f"""(float[2, 3] x, float[{columns}, 4] w) => (float[2, 4] y) <float[2, 7] h> {{
        h = Neg (x)  y = MatMul (h, w) }}"""
    refusal = pytest.raises(InvalidModelError, match="Incompatible dimensions")
    with nullcontext() if columns == 3 else refusal:
        infer_checked(parsed(tmp_path / "m.onnx", text, opset=14))
