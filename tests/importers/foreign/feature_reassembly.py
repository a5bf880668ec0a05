"""CARAFE as mmcv writes it. The oracle goes through the output pixel by pixel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.importers.foreign.model import Arrays, Example, Huge, HugeCase, Inconsistent, numbers
from trtsmith.importers.ops.sampling.feature_reassembly import FEATURE_REASSEMBLY

REASSEMBLY = "FeatureReassembly"


def inputs(kernel: int, groups: int, scale: int) -> Callable[[], dict[str, np.ndarray | None]]:
    def make() -> dict[str, np.ndarray | None]:
        rng = np.random.default_rng(8)
        sizes = (2, groups * kernel * kernel, 4 * scale, 5 * scale)
        return {
            "x": rng.normal(size=(2, 6, 4, 5)).astype(np.float32),
            "masks": rng.uniform(size=sizes).astype(np.float32),
        }

    return make


def oracle(kernel: int, groups: int, scale: int) -> Callable[[Arrays], np.ndarray]:
    def compute(arrays: Arrays) -> np.ndarray:
        x, masks = (arrays[name].astype(np.float64) for name in ("x", "masks"))
        output = np.zeros((*x.shape[:2], *masks.shape[2:]))
        for n, c, row, column in np.ndindex(output.shape):
            first_mask = c // (x.shape[1] // groups) * kernel * kernel
            for tap in range(kernel * kernel):
                y = row // scale + tap // kernel - kernel // 2
                z = column // scale + tap % kernel - kernel // 2
                if 0 <= y < x.shape[2] and 0 <= z < x.shape[3]:
                    output[n, c, row, column] += x[n, c, y, z] * masks[n, first_mask + tap, row, column]
        return output

    return compute


def names(kernel: int, groups: int, scale: float) -> dict[str, float]:
    return {"kernel_size": kernel, "group_size": groups, "scale_factor": scale}


FIELDS = {"kernel_size": 3, "groups": 2, "scale_factor": 2}

EXAMPLES = (
    Example(REASSEMBLY, "MMCVCARAFE", "mmcv", names(5, 1, 2.0), inputs(5, 1, 2), oracle(5, 1, 2)),
    Example(
        REASSEMBLY, "MMCVCARAFE", "mmdeploy", names(3, 3, 2), inputs(3, 3, 2), oracle(3, 3, 2), note="groups"
    ),
    Example(REASSEMBLY, "MMCVCARAFENaive", "mmcv", names(3, 2, 3.0), inputs(3, 2, 3), oracle(3, 2, 3)),
    Example(REASSEMBLY, REASSEMBLY, "trtsmith", FIELDS, inputs(3, 2, 2), oracle(3, 2, 2)),
)  # fmt: skip

SHAPES = {"x": (2, 6, 4, 5), "masks": (2, 18, 8, 10)}

INCONSISTENT = (
    Inconsistent(REASSEMBLY, SHAPES, {"x": (2, 7, 4, 5)}, "groups = 2 does not divide x[1] = 7", FIELDS),
    Inconsistent(REASSEMBLY, SHAPES, {"masks": (1, 18, 8, 10)}, "masks[0] = 1, not 2 = x[0]", FIELDS),
    Inconsistent(
        REASSEMBLY, SHAPES, {"masks": (2, 9, 8, 10)}, "masks[1] = 9, not 18 = groups * kernel_size^2", FIELDS
    ),
    Inconsistent(
        REASSEMBLY, SHAPES, {"masks": (2, 18, 9, 10)}, "masks[2] = 9, not 8 = x[2] * scale_factor", FIELDS
    ),
    Inconsistent(
        REASSEMBLY, SHAPES, {"masks": (2, 18, 8, 5)}, "masks[3] = 5, not 10 = x[3] * scale_factor", FIELDS
    ),
    Inconsistent(REASSEMBLY, SHAPES, {}, "kernel_size = 4 is even", FIELDS, {"kernel_size": 4}),
    Inconsistent(
        REASSEMBLY, SHAPES, {}, "kernel_size = 1025 is more than 1023", FIELDS, {"kernel_size": 1025}
    ),
    Inconsistent(
        REASSEMBLY, SHAPES, {}, "scale_factor = 1025 is more than 1024", FIELDS, {"scale_factor": 1025}
    ),
)


def huge(side: int, device: str) -> Huge:
    """Eight channels, one tap, the same size: with sides of 16,500, x and the output have 2.18e9 elements each."""
    import torch

    fields = {"kernel_size": 1, "groups": 1, "scale_factor": 1}
    half: dict[str, Any] = {"device": device, "dtype": torch.float16}
    inputs = {"x": torch.randn(1, 8, side, side, **half), "masks": torch.rand(1, 1, side, side, **half)}

    def check(outputs: list[Any]) -> list[tuple[str, np.ndarray, np.ndarray]]:
        results = []
        for place, part in (("near corner", slice(0, 64)), ("far corner", slice(side - 64, side))):
            arrays = {name: numbers(tensor[:, :, part, part]) for name, tensor in inputs.items()}
            found = numbers(outputs[0][:, :, part, part])
            results.append((place, found, FEATURE_REASSEMBLY.reference(fields, arrays)["output"]))
        return results

    return Huge(fields, inputs, check)


HUGE = HugeCase(huge, size=16_500, small=150)
