"""Nodes are asked about their shapes one by one where a model says of a value what is not so."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from trtsmith.converter.graph.type_check import infer_checked
from trtsmith.converter.model.errors import InvalidModelError
from trtsmith.converter.model.load import load_model

BRANCHES = """
y = If (c) <then_branch = a () => (float p) { p = Neg (k) },
            else_branch = b () => (float q) { q = Abs (k) }>"""
"""They say that they have no dimensions; k has one."""


def model(folder: Path, resize: str) -> Path:
    text = f"""<ir_version: 8, opset_import: ["" : 14]>
        g (float[1, 1, 4, 4] x, bool c, float[1] k) => (float[1, 1, 8, 8] r, float[n] z) {{
            none = Constant <value = float[0] {{}}> ()  half = Constant <value = float[4] {{1, 1, 2, 2}}> ()
            sizes = Constant <value = int64[4] {{1, 1, 8, 8}}> ()
            r = Resize <mode = "nearest"> (x, {resize})
            {BRANCHES}
            z = Neg (y) }}"""
    path = folder / "m.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    return path


def test_an_empty_constant_is_an_input_that_is_left_out(tmp_path: Path) -> None:
    """As exporters wrote a Resize by sizes before inputs could be left out."""
    infer_checked(load_model(model(tmp_path, "none, none, sizes")))


def test_scales_and_sizes_together_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidModelError, match="but not both of them"):
        infer_checked(load_model(model(tmp_path, "none, half, sizes")))


@pytest.mark.parametrize("columns", [3, 5])
def test_what_a_model_states_wrongly_of_a_value_is_no_fault_of_nodes(columns: int, tmp_path: Path) -> None:
    """onnxruntime goes by what nodes make, and takes the model if that fits: x has three columns."""
    path = tmp_path / "m.onnx"
    text = f"""<ir_version: 8, opset_import: ["" : 14]>
        g (float[2, 3] x, float[{columns}, 4] w) => (float[2, 4] y) <float[2, 7] h> {{
            h = Neg (x)  y = MatMul (h, w) }}"""
    onnx.save(onnx.parser.parse_model(text), path)
    if columns == 3:
        infer_checked(load_model(path))
        return
    with pytest.raises(InvalidModelError, match="Incompatible dimensions"):
        infer_checked(load_model(path))
