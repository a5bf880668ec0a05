"""The correlation of optical flow, as other tools write it. The oracle pairs pixels one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.importers.foreign.model import Arrays, Example, Huge, HugeCase, Inconsistent, numbers
from trtsmith.importers.ops.sampling.local_correlation import LOCAL_CORRELATION

CORRELATION = "LocalCorrelation"


def inputs() -> dict[str, np.ndarray | None]:
    rng = np.random.default_rng(9)
    maps = rng.normal(size=(2, 2, 6, 5, 7)).astype(np.float32)
    return {"first": maps[0], "second": maps[1]}


def oracle(
    radius: int, kernel: int = 1, stride: int = 1, padding: int = 0, dilation: int = 1, step: int = 1
) -> Callable[[Arrays], np.ndarray]:
    def compute(arrays: Arrays) -> np.ndarray:
        first, second = (arrays[name].astype(np.float64) for name in ("first", "second"))
        batch, _, *sizes = first.shape
        sides = [(size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1 for size in sizes]
        output = np.zeros((batch, 2 * radius + 1, 2 * radius + 1, *sides))
        for n, p, q, row, column in np.ndindex(output.shape):
            for i, j in np.ndindex(kernel, kernel):
                y, x = row * stride - padding + i * dilation, column * stride - padding + j * dilation
                y2, x2 = y + (p - radius) * step, x + (q - radius) * step
                if 0 <= min(y, y2) <= max(y, y2) < sizes[0] and 0 <= min(x, x2) <= max(x, x2) < sizes[1]:
                    output[n, p, q, row, column] += first[n, :, y, x] @ second[n, :, y2, x2]
        return output

    return compute


def flat(arrays: Arrays) -> np.ndarray:
    found = oracle(2)(arrays)
    return found.reshape(2, 25, 5, 7)


FIELDS = {
    "max_displacement": 2,
    "kernel_size": (3, 3),
    "stride": (2, 2),
    "padding": (1, 1),
    "dilation": (1, 1),
    "dilation_patch": (2, 2),
}
MMCV = {
    "kernel_size": 3,
    "max_displacement": 2,
    "stride": 2,
    "padding": 1,
    "dilation": 1,
    "dilation_patch": 2,
}

EXAMPLES = (
    Example(CORRELATION, "MMCVCorrelation", "mmcv", MMCV, inputs, oracle(2, 3, 2, 1, 1, 2)),
    Example(CORRELATION, "MMCVCorrelation", "mmdeploy", {}, inputs, oracle(1, padding=1), note="defaults"),
    Example(
        CORRELATION, "MMCVCorrelation", "mmcv", MMCV | {"kernel_size": [2, 2], "dilation": [2, 2]}, inputs,
        oracle(2, 2, 2, 1, 2, 2), note="pairs",
    ),
    Example(CORRELATION, "Correlation", "mmcv", MMCV, inputs, oracle(2, 3, 2, 1, 1, 2)),
    Example(CORRELATION, "Correlation", "mmcv", {"max_displacement": 1}, inputs, oracle(1, padding=1), note="defaults"),
    Example(CORRELATION, "Correlation", "", {"patchsize": 5, "dilation": 1}, inputs, flat),
    Example(CORRELATION, CORRELATION, "trtsmith", FIELDS, inputs, oracle(2, 3, 2, 1, 1, 2)),
)  # fmt: skip

SHAPES = {"first": (2, 6, 5, 7), "second": (2, 6, 5, 7)}

INCONSISTENT = (
    Inconsistent(CORRELATION, SHAPES, {"second": (2, 5, 5, 7)}, "second[1] = 5, but first[1] = 6", FIELDS),
    Inconsistent(
        CORRELATION, SHAPES, {}, "the kernel does not fit into the height of 5", FIELDS, {"kernel_size": (8, 1)}
    ),
    Inconsistent(CORRELATION, SHAPES, {}, "width of the padding is 536870913", FIELDS, {"padding": (1, 536870913)}),
    Inconsistent(
        CORRELATION, SHAPES, {}, "height of the displacement is 1073741824", FIELDS,
        {"max_displacement": 2, "dilation_patch": (536870912, 1)},
    ),
    Inconsistent(
        CORRELATION, SHAPES, {}, "width of the kernel is 1073741824", FIELDS,
        {"dilation": (1, 536870912), "padding": (1, 536870912)},
    ),
)  # fmt: skip


def huge(side: int, device: str) -> Huge:
    """Sixteen channels, nine displacements: with sides of 11,600, the two inputs have 2.15e9 elements each."""
    import torch

    fields = {
        "max_displacement": 1,
        **dict.fromkeys(("kernel_size", "stride", "dilation", "dilation_patch"), (1, 1)),
    }
    fields["padding"] = (0, 0)
    shape = (1, 16, side, side)
    inputs = {name: torch.randn(shape, device=device, dtype=torch.float16) for name in ("first", "second")}

    def check(outputs: list[Any]) -> list[tuple[str, np.ndarray, np.ndarray]]:
        """The reference on a crop of both corners, but for the crop's inner ends."""
        results = []
        for place, part, inner in (
            ("near corner", slice(0, 48), slice(0, 47)),
            ("far corner", slice(side - 48, side), slice(1, 48)),
        ):
            arrays = {name: numbers(tensor[:, :, part, part]) for name, tensor in inputs.items()}
            found = numbers(outputs[0][..., part, part])[..., inner, inner]
            results.append(
                (place, found, LOCAL_CORRELATION.reference(fields, arrays)["output"][..., inner, inner])
            )
        return results

    return Huge(fields, inputs, check)


HUGE = HugeCase(huge, size=11_600, small=100)
