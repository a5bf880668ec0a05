"""Networks that see images get photographs, in the range that they expect."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.converter.models import parsed
from trtsmith.converter.model.shapes import graph_inputs
from trtsmith.converter.verify.inputs import Generated, generate_inputs

CONV = "y = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> "


def generated(folder: Path, dtype: str, shape: str, body: str, channels: int = 3) -> Generated:
    weights = {"w": np.ones((2, channels, 3, 3), np.float32)}
    model = parsed(folder / "m.onnx", f"({dtype}[{shape}] x) => (float[A,B,C,D] y) {{ {body} }}", weights)
    return generate_inputs(model, graph_inputs(model.proto), {})


@pytest.mark.parametrize(
    ("dtype", "shape", "body", "channels", "high"),
    [
        ("float", "2,3,64,96", CONV + "(x, w)", 3, 1),
        ("float", "2,64,96,3", "t = Transpose <perm = [0, 3, 1, 2]> (x) " + CONV + "(t, w)", 3, 1),
        ("float16", "1,1,28,28", "t = Cast <to = 1> (x) " + CONV + "(t, w)", 1, 1),
        ("uint8", "1,3,64,64", "t = Cast <to = 1> (x) " + CONV + "(t, w)", 3, 255),
        (
            "float",
            "1,3,64,64",
            f"s = Constant <value = float {{255.0}}> () t = Div (x, s) {CONV}(t, w)",
            3,
            255,
        ),
    ],
)
def test_images_are_photographs(
    tmp_path: Path, dtype: str, shape: str, body: str, channels: int, high: int
) -> None:
    made = generated(tmp_path, dtype, shape, body, channels)
    image = made.arrays["x"].astype(np.float64)
    assert image.shape == tuple(map(int, shape.split(",")))
    assert str(made.arrays["x"].dtype) == {"float": "float32"}.get(dtype, dtype)
    assert image.min() >= 0 and 0.6 * high < image.max() <= high and image.std() > 0.1 * high
    axis = 3 if image.shape[-1] == channels else 2
    neighbours = np.abs(np.diff(image, axis=2 if axis == 2 else 1)).mean()
    assert neighbours < 0.25 * image.std()  # noise has 1.1
    assert "cut-outs of photographs (a cat, a cup, a rocket), 0 to " in made.meanings[0]
    again = generated(tmp_path, dtype, shape, body, channels)
    assert np.array_equal(again.arrays["x"], made.arrays["x"])
    if image.shape[0] > 1:
        assert not np.array_equal(image[0], image[1])


@pytest.mark.parametrize("shape", ["1,3,8,8", "1,3,1,500"])
def test_what_is_too_small_for_an_image_is_none(tmp_path: Path, shape: str) -> None:
    made = generated(tmp_path, "float", shape, CONV + "(x, w)")
    assert made.meanings == () and made.arrays["x"].min() < 0
