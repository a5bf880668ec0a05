"""Models that the rule stock-crop takes, with the kernel's arithmetic in numpy as the oracle."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Arrays, Example

_RNG = np.random.default_rng(31)

_BOXES = np.array(
    [
        [[0.0, 0.0, 1.0, 1.0], [0.2, 0.7, 0.9, 0.1], [-0.3, 0.25, 0.5, 1.2]],
        [[0.5, 0.5, 0.5, 0.5], [0.0, 0.0, 0.0, 0.0], [1.5, 2.0, 3.0, 2.5]],
    ]
)[..., None]
"""A whole image, corners the other way round, one beyond the edges; a point, a row of zeros, one outside."""


def _cut(inputs: Arrays) -> Arrays:
    images, boxes = inputs["x"].astype(np.float64), inputs["b"].astype(np.float64)
    height, width = images.shape[2:]
    rows, columns = inputs["like"].shape
    result = np.zeros((*boxes.shape[:2], images.shape[1], rows, columns))
    for n, r, i, j in np.ndindex(*boxes.shape[:2], rows, columns):
        y1, x1, y2, x2 = boxes[n, r, :, 0]
        y = (y1 + (y2 - y1) * i / (rows - 1) if rows > 1 else (y1 + y2) / 2) * (height - 1)
        x = (x1 + (x2 - x1) * j / (columns - 1) if columns > 1 else (x1 + x2) / 2) * (width - 1)
        if 0 <= y <= height - 1 and 0 <= x <= width - 1:
            top, left = int(y), int(x)
            corners = images[n, :, [top, min(top + 1, height - 1)]][:, :, [left, min(left + 1, width - 1)]]
            across = corners[..., 0] + (corners[..., 1] - corners[..., 0]) * (x - left)
            result[n, r, :, i, j] = across[0] + (across[1] - across[0]) * (y - top)
    return {"y": result.astype(inputs["x"].dtype)}


def _example(name: str, op: str, size: tuple[int, int], kind: str = "float", opset: int = 17) -> Example:
    dtype = np.float16 if kind == "float16" else np.float32
    rows, columns = size
    return Example(
        name,
        f"""<ir_version: 8, opset_import: ["" : {opset}, "TRT" : 1]>
        g ({kind}[N, 3, 5, 9] x, {kind}[N, R, 4, 1] b, float[{rows}, {columns}] like)
            => ({kind}[N, R, 3, {rows}, {columns}] y) {{
            y = {op} <crop_height = {rows}, crop_width = {columns}> (x, b)
        }}""",
        feeds={
            "x": _RNG.standard_normal((2, 3, 5, 9)).astype(dtype),
            "b": _BOXES.astype(dtype),
            "like": np.zeros(size, np.float32),
        },
        rtol=5e-3 if kind == "float16" else 1e-4,
        atol=5e-3 if kind == "float16" else 1e-5,
        expected=_cut,
    )


EXAMPLES = {
    "stock-crop": (
        _example("boxes of each image", "CropAndResizeDynamic", (4, 3)),
        _example("middles of boxes, an old opset", "TRT.CropAndResize", (1, 2), opset=11),
        _example("float16", "CropAndResizeDynamic", (3, 5), "float16", 20),
    )
}

REFUSED: dict[str, tuple[str, ...]] = {
    "stock-crop": (
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 3, H, 9] x, float[1, 2, 4, 1] b) => (float[1, 2, 3, 2, 2] y) {
            y = CropAndResizeDynamic <crop_height = 2, crop_width = 2> (x, b)
        }""",
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 3, 8, 9] x, float[1, 2, 4, 1] b) => (float[1, 2, 3, 2, M] y) {
            y = CropAndResizeDynamic <crop_height = 2, crop_width = 0> (x, b)
        }""",
    ),
}
