"""Grouped deformable sampling, as other tools write it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.importers.foreign.model import Arrays, Example, Huge, HugeCase, Inconsistent, numbers
from trtsmith.importers.ops.sampling.grouped_deformable_sampling import GROUPED_DEFORMABLE_SAMPLING

SAMPLING = "GroupedDeformableSampling"
GROUPS = 3
HEIGHT, WIDTH = 7, 6


def pixel(plane: np.ndarray, y: float, x: float) -> np.ndarray:
    """Channels of a bilinear sample of [H, W, D], zeros outside."""
    top, left = int(np.floor(y)), int(np.floor(x))
    total = np.zeros(plane.shape[2])
    for row, part_y in ((top, top + 1 - y), (top + 1, y - top)):
        for column, part_x in ((left, left + 1 - x), (left + 1, x - left)):
            if 0 <= row < plane.shape[0] and 0 <= column < plane.shape[1]:
                total += part_y * part_x * plane[row, column]
    return total


def sampled(
    x: np.ndarray,
    moves: np.ndarray,
    weights: np.ndarray,
    scale: float,
    dilation: int,
    stride: int,
    centre: bool,
) -> np.ndarray:
    """A kernel of 3x3 with its padding as wide as its dilation, so that output (y, x) lies about (y, x) * stride.

    moves [N, Ho, Wo, G, K, 2] as (dx, dy), weights [N, Ho, Wo, G, K]; taps go down before they go across.
    """
    batch, channels = x.shape[0], x.shape[3]
    each = channels // GROUPS
    out = np.zeros((*moves.shape[:3], channels))
    steps = [(dy, dx) for dx in (-1, 0, 1) for dy in (-1, 0, 1) if centre or (dy, dx) != (0, 0)]
    for n, oy, ox, g in np.ndindex(batch, *moves.shape[1:3], GROUPS):
        part = slice(g * each, (g + 1) * each)
        for t, (dy, dx) in enumerate(steps):
            right, down = moves[n, oy, ox, g, t]
            y = oy * stride + scale * (dy * dilation + down)
            z = ox * stride + scale * (dx * dilation + right)
            out[n, oy, ox, part] += weights[n, oy, ox, g, t] * pixel(x[n, :, :, part], y, z)
    return out


def apart(taps: int) -> Callable[[], dict[str, np.ndarray | None]]:
    def make() -> dict[str, np.ndarray | None]:
        rng = np.random.default_rng(6)
        places = (2, HEIGHT, WIDTH)
        return {
            "x": rng.normal(size=(*places, 12)).astype(np.float32),
            "offset": rng.normal(size=(*places, GROUPS * taps * 2)).astype(np.float32),
            "mask": rng.uniform(size=(*places, GROUPS * taps)).astype(np.float32),
        }

    return make


def together(taps: int, out: tuple[int, int]) -> Callable[[], dict[str, np.ndarray | None]]:
    """Filled up to a multiple of 8 with numbers that would show."""

    def make() -> dict[str, np.ndarray | None]:
        rng = np.random.default_rng(7)
        numbers = -(-GROUPS * taps * 3 // 8) * 8
        return {
            "x": rng.normal(size=(2, HEIGHT, WIDTH, 12)).astype(np.float32),
            "offset": rng.normal(size=(2, *out, numbers)).astype(np.float32),
        }

    return make


def fused() -> dict[str, np.ndarray | None]:
    """Both in one row."""
    parts = together(9, OUT)()
    return {"rows": np.concatenate([parts["x"], parts["offset"]], -1)}  # type: ignore[list-item]


def of_rows(inputs: Arrays) -> np.ndarray:
    rows = inputs["rows"]
    return oracle(0.5)({"x": rows[..., :12], "offset": rows[..., 12:]})


def oracle(
    scale: float = 1.0, dilation: int = 1, stride: int = 1, *, centre: bool = True
) -> Callable[[Arrays], np.ndarray]:
    taps = 9 if centre else 8

    def compute(inputs: Arrays) -> np.ndarray:
        x, offset = inputs["x"].astype(np.float64), inputs["offset"].astype(np.float64)
        places = offset.shape[:3]
        if "mask" in inputs:
            moves = offset.reshape(*places, GROUPS, taps, 2)
            weights = inputs["mask"].astype(np.float64).reshape(*places, GROUPS, taps)
        else:
            both = offset[..., : GROUPS * taps * 3].reshape(*places, GROUPS, taps * 3)
            moves, weights = both[..., : taps * 2].reshape(*places, GROUPS, taps, 2), both[..., taps * 2 :]
        return sampled(x, moves, weights, scale, dilation, stride, centre)

    return compute


def names(h: str, w: str, dilation: int = 1, stride: int = 1) -> dict[str, int]:
    """The numbers of a kernel of 3x3: h and w are formats of an attribute's name."""
    values = {"kernel": 3, "stride": stride, "pad": dilation, "dilation": dilation}
    short = {name: name[0] for name in values}
    return {
        form.format(name=name, short=short[name]): value for name, value in values.items() for form in (h, w)
    }


def mmdeploy(dilation: int = 1, **given: Any) -> dict[str, Any]:
    sizes = names("{name}_h", "{name}_w", dilation)
    return {**sizes, "group": GROUPS, "group_channels": 4, "offset_scale": 1.0, "im2col_step": 256, **given}


def plugin(dilation: int = 1, stride: int = 1, **given: Any) -> dict[str, Any]:
    sizes = names("{short}h", "{short}w", dilation, stride)
    return {**sizes, "group": GROUPS, "group_channels": 4, "offscale": 1.0, "step": 256, **given}


FIELDS = {
    "kernel_shape": (3, 3),
    "stride": (1, 1),
    "padding": (1, 1),
    "dilation": (1, 1),
    "groups": GROUPS,
    "offset_scale": 1.0,
    "remove_center": 0,
}
SCALED = FIELDS | {"offset_scale": 2.0, "remove_center": 1}
OUT = (HEIGHT, WIDTH)

EXAMPLES = (
    Example(SAMPLING, "TRTDCNv3", "mmdeploy", mmdeploy(), apart(9), oracle()),
    Example(
        SAMPLING, "TRTDCNv3", "mmdeploy", mmdeploy(2, offset_scale=0.5, remove_center=0), apart(9), oracle(0.5, 2),
        note="scaled_dilated",
    ),
    Example(
        SAMPLING, "TRTDCNv3", "mmdeploy", mmdeploy(offset_scale=2.0, remove_center=1), apart(8),
        oracle(2.0, centre=False), note="no_centre",
    ),
    Example(
        SAMPLING, "DCNv4_Plugin", "custom_op", plugin(offscale=0.5, remove_center=0), together(9, OUT), oracle(0.5)
    ),
    Example(
        SAMPLING, "DCNv4_Plugin", "custom_op", plugin(2, 2, remove_center=1), together(8, (4, 3)),
        oracle(1.0, 2, 2, centre=False), note="no_centre_strided",
    ),
    Example(SAMPLING, "DCNv4FuseOffset_Plugin", "custom_op", plugin(offscale=0.5, remove_center=0), fused, of_rows),
    Example(SAMPLING, SAMPLING, "trtsmith", SCALED, apart(8), oracle(2.0, centre=False)),
    Example(SAMPLING, SAMPLING, "trtsmith", FIELDS, together(9, OUT), oracle(), note="together"),
)  # fmt: skip

SHAPES = {"x": (2, 7, 6, 12), "offset": (2, 7, 6, 54), "mask": (2, 7, 6, 27)}
PACKED = {"x": (2, 7, 6, 12), "offset": (2, 7, 6, 88)}

INCONSISTENT = (
    Inconsistent(SAMPLING, SHAPES, {"x": (2, 7, 6, 13)}, "groups = 3 does not divide x[3] = 13", FIELDS),
    Inconsistent(
        SAMPLING, SHAPES, {"offset": (2, 7, 6, 48)}, "offset[3] = 48, not 54 = 2 * groups * taps", FIELDS
    ),
    Inconsistent(SAMPLING, SHAPES, {"mask": (2, 7, 6, 24)}, "mask[3] = 24, not 27 = groups * taps", FIELDS),
    Inconsistent(SAMPLING, SHAPES, {"offset": (1, 7, 6, 54)}, "offset[0] = 1, not 2 = x[0]", FIELDS),
    Inconsistent(SAMPLING, SHAPES, {"mask": (3, 7, 6, 27)}, "mask[0] = 3, not 2 = x[0]", FIELDS),
    Inconsistent(
        SAMPLING, SHAPES, {"offset": (2, 6, 6, 54)}, "offset[1] = 6, not 7 = the size of the output", FIELDS
    ),
    Inconsistent(SAMPLING, SHAPES, {"mask": (2, 7, 7, 27)}, "mask[2] = 7, not 6", FIELDS),
    Inconsistent(SAMPLING, PACKED, {"offset": (2, 7, 6, 80)}, "offset[3] = 80, less than 81", FIELDS),
    Inconsistent(
        SAMPLING, SHAPES, {}, "no tap is the centre", FIELDS, {"kernel_shape": (2, 3), "remove_center": 1}
    ),
    Inconsistent(
        SAMPLING, SHAPES, {}, "no tap is left", FIELDS, {"kernel_shape": (1, 1), "remove_center": 1}
    ),
    Inconsistent(SAMPLING, SHAPES, {}, "of the padding is 536870913", FIELDS, {"padding": (536870913, 1)}),
    Inconsistent(SAMPLING, SHAPES, {}, "of the kernel is 1073741824", FIELDS, {"dilation": (1, 536870912)}),
)


def huge(side: int, device: str) -> Huge:
    """Eight channels and a 1x1 kernel: at 16500x16500, x and output have 2.18e9 elements each (4.4 GB).

    The reference runs on a crop of both far corners. Offsets are quarters of a pixel, up to 4: exact in float32 at any
    position, so that the crop's small coordinates mean the same.
    """
    import torch

    fields = {
        "kernel_shape": (1, 1),
        "stride": (1, 1),
        "padding": (0, 0),
        "dilation": (1, 1),
        "groups": 1,
        "offset_scale": 1.0,
        "remove_center": 0,
    }
    crop, far_reach = 96, 6
    half: dict[str, Any] = {"device": device, "dtype": torch.float16}
    offset = torch.randint(-16, 17, (1, side, side, 2), device=device, dtype=torch.int8).to(torch.float16)
    inputs = {
        "x": torch.randn(1, side, side, 8, **half),
        "offset": offset.div_(4),
        "mask": torch.rand(1, side, side, 1, **half),
    }

    def check(outputs: list[Any]) -> list[tuple[str, np.ndarray, np.ndarray]]:
        results = []
        places = {
            "near corner": (slice(0, crop), slice(0, crop - far_reach)),
            "far corner": (slice(side - crop, side), slice(far_reach, crop)),
        }
        for place, (part, inner) in places.items():
            arrays = {name: numbers(tensor[:, part, part]) for name, tensor in inputs.items()}
            wanted = GROUPED_DEFORMABLE_SAMPLING.reference(fields, arrays)["output"][:, inner, inner]
            results.append((place, numbers(outputs[0][:, part, part][:, inner, inner]), wanted))
        return results

    return Huge(fields, inputs, check)


HUGE = HugeCase(huge, size=16500, small=150)
