"""Models that were exported for one image are named when they are converted for several."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.converter.models import parsed
from trtsmith.converter.base.options.shapes import ShapeRange
from trtsmith.converter.convert.analysis import AnalysisOptions, analyse

ONE = "z = Constant <value = int64[2] {1, -1}> () y = Reshape (x, z)"
EACH = "z = Constant <value = int64[2] {0, -1}> () y = Reshape (x, z)"
LAST = "z = Constant <value = int64[2] {-1, 4}> () y = Reshape (x, z)"
DATA = "i = NonZero (x) y = Transpose (i)"
RANGE = ((1, 2), (4, 2), (8, 2))


@pytest.mark.parametrize(
    ("body", "declared", "sizes", "told"),
    [
        (ONE, "batch, m", RANGE, "output 'y' always has size 1 at axis 0, declared as 'batch', which is 1 to 8 in "),
        (ONE, "batch, m", [(4, 2)] * 3, "'batch', which is 4 in input 'x': the model was probably exported for one"),
        (LAST, "m, batch", RANGE, "output 'y' always has size 4 at axis 1, declared as 'batch', which is 1 to 8 in "),
        (ONE, "batch, m", [(1, 2)] * 3, ""),
        (ONE, "one, m", RANGE, ""),
        (EACH, "batch, m", RANGE, ""),
        (EACH, "batch, m", [(4, 2)] * 3, ""),
        (DATA, "batch, two", RANGE, ""),
    ],
)  # fmt: skip
def test_an_output_of_a_fixed_size_that_follows_no_input(
    tmp_path: Path, body: str, declared: str, sizes: list[tuple[int, int]], told: str
) -> None:
    kind = "int64" if body == DATA else "float"
    model = parsed(tmp_path / "m.onnx", f"(float[batch, 2] x) => ({kind}[{declared}] y) {{ {body} }}")
    profile = {"x": ShapeRange(*sizes)}
    warnings = analyse(model, AnalysisOptions(profiles=(profile,))).plan.warnings
    assert len(warnings) == bool(told) and all(told in one for one in warnings)
    assert analyse(model, AnalysisOptions()).plan.warnings == ()


@pytest.mark.parametrize(
    ("result", "most", "told"),
    [("1, m", 4, True), ("batch, m", 4, False), ("1, m", 1, False), ("n, m", 4, False)],
)
def test_results_of_one_image_of_several(tmp_path: Path, result: str, most: int, told: bool) -> None:
    body = "z = Constant <value = int64 {0}> () i = Gather (x, z) s = Constant <value = int64[2] {1, -1}> ()"
    text = f"(float[batch, 3, 2, 2] x) => (float[{result}] y) {{ {body} y = Reshape (i, s) }}"
    profile = {"x": ShapeRange((1, 3, 2, 2), (1, 3, 2, 2), (most, 3, 2, 2))}
    warnings = analyse(parsed(tmp_path / "m.onnx", text), AnalysisOptions(profiles=(profile,))).plan.warnings
    assert told == any("up to 4 images in input 'x'" in one for one in warnings)
