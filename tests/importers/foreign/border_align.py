"""The maximum of samples along each border of boxes, as mmcv writes it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.importers.foreign._regions import sample
from tests.importers.foreign.model import Arrays, Example, Huge, HugeCase, Inconsistent, numbers
from trtsmith.importers.ops.box_sampling.border_align import BORDER_ALIGN

ALIGN = "BorderAlign"
STEPS = 3


def inputs() -> dict[str, np.ndarray | None]:
    rng = np.random.default_rng(9)
    boxes = np.array(
        [
            [[1, 1.5, 4.25, 5], [0, 0, 6, 7.5], [-0.5, -0.75, 2, 3], [3, 2, 3, 2]],
            [[2.5, 1, 9, 3], [-6, 2, -3, 4], [5, 6, 1, 2], [0.25, 6.5, 5, 8.5]],
        ]
    )
    return {"x": rng.normal(size=(2, 12, 8, 7)).astype(np.float32), "boxes": boxes.astype(np.float32)}


def oracle(arrays: Arrays) -> np.ndarray:
    """From corner to corner: the top's goes right, the left's down, the bottom's left and the right's up."""
    x, boxes = (arrays[name].astype(np.float64) for name in ("x", "boxes"))
    output = np.zeros((2, 3, 4, 4))
    for image, k in np.ndindex(2, 4):
        x1, y1, x2, y2 = boxes[image, k]
        ends = ((x1, y1, x2, y1), (x1, y1, x1, y2), (x2, y2, x1, y2), (x2, y2, x2, y1))
        for border, (from_x, from_y, to_x, to_y) in enumerate(ends):
            feature = x[image, 3 * border : 3 * border + 3]
            samples = [
                sample(feature, from_y + (to_y - from_y) * t, from_x + (to_x - from_x) * t).sum(1)
                for t in np.linspace(0, 1, STEPS + 1)
            ]
            output[image, :, k, border] = np.max(samples, axis=0)
    return output


FIELDS = {"pool_size": STEPS}

EXAMPLES = (
    Example(ALIGN, "MMCVBorderAlign", "mmcv", FIELDS, inputs, oracle),
    Example(ALIGN, ALIGN, "trtsmith", FIELDS, inputs, oracle),
)

SHAPES = {"x": (2, 12, 8, 7), "boxes": (2, 4, 4)}
INCONSISTENT = (
    Inconsistent(ALIGN, SHAPES, {"x": (2, 10, 8, 7)}, "x[1] = 10, not a multiple of 4", FIELDS),
    Inconsistent(ALIGN, SHAPES, {"boxes": (2, 4, 5)}, "boxes[2] = 5, not 4", FIELDS),
    Inconsistent(ALIGN, SHAPES, {"boxes": (1, 4, 4)}, "boxes[0] = 1, but x[0] = 2", FIELDS),
    Inconsistent(ALIGN, SHAPES, {"x": (2, 4, 65536, 32768)}, "65536 x 32768 pixels", FIELDS),
    Inconsistent(ALIGN, SHAPES, {}, "pool_size = 1025, more than 1024", FIELDS, {"pool_size": 1025}),
)


def huge(side: int, device: str) -> Huge:
    """32 channels of side * side pixels: at 8,200, x has 2.15e9 elements (4.3 GB); boxes lie in both far corners."""
    import torch

    x = torch.randn(1, 32, side, side, device=device, dtype=torch.float16)
    # Multiples of 32, which float16 has up to 65,504.
    far = (side - 100) // 32 * 32
    boxes = torch.tensor(
        [[[0, 0, 32, 64], [far, far, far + 64, far + 32]]], device=device, dtype=torch.float16
    )
    fields = {"pool_size": 8}

    def check(outputs: list[Any]) -> list[tuple[str, np.ndarray, np.ndarray]]:
        results = []
        for k, start in enumerate((0, far)):
            cut = slice(start, start + 100)
            part = {"x": numbers(x[:, :, cut, cut]), "boxes": numbers(boxes[:, k : k + 1]) - start}
            results.append(
                (
                    f"box {k}",
                    numbers(outputs[0][0, :, k]),
                    BORDER_ALIGN.reference(fields, part)["output"][0, :, 0],
                )
            )
        return results

    return Huge(fields, {"x": x, "boxes": boxes}, check)


HUGE = HugeCase(huge, size=8_200, small=200)
