"""Makes test inputs for deformable convolution, with a mask and without."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from trtsmith.importers.opdef import Case
from trtsmith.importers.ops._shared import STRANGE, put_every

_DEFAULTS: dict[str, Any] = {
    "stride": (1, 1),
    "padding": (0, 0, 0, 0),
    "dilation": (1, 1),
    "groups": 1,
    "offset_groups": 1,
}

Make = Callable[[np.random.Generator], dict[str, np.ndarray]]


def drawn_offsets(kind: str, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Draws offsets. near: a few pixels, as networks learn them; far: mostly outside; lattice: whole pixels, so that
    positions are exactly on the border and on the ring around it; strange: not numbers, infinite, beyond every integer type.
    """
    if kind == "lattice":
        return rng.integers(-3, 4, shape).astype(np.float64)
    offsets = rng.normal(scale=30.0 if kind == "far" else 1.5, size=shape)
    if kind == "strange":
        put_every(7, offsets, (*STRANGE, 3e9, -3e9))
    return offsets


def cases(masked: bool) -> tuple[Case, ...]:
    """Makes the cases of the operator with or without a mask input."""

    def case(
        name: str,
        x: tuple[int, int, int, int],
        out: int,
        kernel: tuple[int, int] = (3, 3),
        *,
        bias: bool = True,
        offsets: str = "near",
        large: bool = False,
        tiles: bool = False,
        **given: Any,
    ) -> Case:
        fields = _DEFAULTS | given
        batch, channels, height, width = x
        (stride_h, stride_w), (dilation_h, dilation_w) = fields["stride"], fields["dilation"]
        top, left, bottom, right = fields["padding"]
        out_h = (height + top + bottom - dilation_h * (kernel[0] - 1) - 1) // stride_h + 1
        out_w = (width + left + right - dilation_w * (kernel[1] - 1) - 1) // stride_w + 1
        taps = fields["offset_groups"] * kernel[0] * kernel[1]

        def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
            depth = channels // fields["groups"]
            inputs = {
                "x": rng.normal(size=x),
                "offset": drawn_offsets(offsets, rng, (batch, 2 * taps, out_h, out_w)),
                "weight": rng.normal(size=(out, depth, *kernel)) / np.sqrt(depth * kernel[0] * kernel[1]),
            }
            if masked:
                inputs["mask"] = 1 / (1 + np.exp(-rng.normal(size=(batch, taps, out_h, out_w))))
            if bias:
                inputs["bias"] = rng.normal(size=out)
            return inputs

        return Case(name, fields, make, large, tiles)

    same: dict[str, Any] = {"padding": (1, 1, 1, 1)}
    tiled = partial(case, large=True, tiles=True)
    return (
        case("one_of_each", (1, 1, 1, 1), 1, (1, 1)),
        case("kernel_1x1", (2, 6, 5, 7), 4, (1, 1)),
        case("kernel_5x3", (1, 4, 9, 8), 3, (5, 3), padding=(2, 1, 2, 1)),
        case("kernel_1x4_even", (1, 3, 6, 9), 2, (1, 4)),
        case("odd", (2, 3, 7, 11), 5, **same),
        case("no_bias", (1, 8, 6, 5), 8, bias=False, **same),
        case("one_pixel_padded", (1, 2, 1, 1), 3, **same),
        case("one_row", (1, 4, 1, 13), 4, **same),
        case("strided", (2, 4, 13, 10), 6, stride=(2, 3), **same),
        case("dilated", (1, 4, 13, 15), 6, dilation=(2, 3), padding=(2, 3, 2, 3)),
        case("asymmetric_padding", (1, 4, 9, 8), 6, stride=(2, 1), padding=(0, 1, 2, 3)),
        case("groups", (2, 6, 8, 7), 9, groups=3, **same),
        case("depthwise", (1, 8, 8, 7), 8, groups=8, **same),
        case("offset_groups", (2, 8, 8, 7), 5, offset_groups=4, **same),
        case("groups_differ", (2, 12, 8, 7), 8, groups=4, offset_groups=3, **same),
        case("groups_of_offset_groups", (1, 12, 6, 7), 4, groups=2, offset_groups=12, **same),
        case("wider_than_a_block", (1, 40, 17, 33), 70, **same),
        case("many_outputs", (1, 16, 20, 23), 130, (1, 1)),
        case("whole_pixels", (1, 4, 7, 6), 4, offsets="lattice", **same),
        case("far_outside", (1, 4, 7, 6), 4, offsets="far", **same),
        case("nan_and_huge_offsets", (2, 4, 7, 6), 4, offsets="strange", offset_groups=2, **same),
        case("no_batch", (0, 4, 7, 6), 4, **same),
        # Eight channels or more to a group and an offset group, which the tensor cores take: awkward there too.
        case("tensor_cores_groups", (2, 32, 9, 7), 18, groups=2, **same),
        case("tensor_cores_offset_groups", (3, 32, 8, 7), 70, offset_groups=4, **same),
        case("tensor_cores_groups_differ", (2, 48, 8, 7), 10, groups=2, offset_groups=3, bias=False, **same),
        case(
            "tensor_cores_strided", (2, 24, 13, 10), 6, stride=(2, 3), dilation=(2, 1), padding=(0, 1, 2, 3)
        ),
        case("tensor_cores_far_outside", (1, 16, 7, 6), 130, offsets="far", **same),
        case(
            "tensor_cores_nan_and_huge_offsets", (2, 32, 7, 6), 9, offsets="strange", offset_groups=2, **same
        ),
        case("no_batch_tensor_cores", (0, 16, 7, 6), 4, **same),
        # Several chunks of 64 channels share their positions; too many taps to keep; every offset group one load.
        case("tensor_cores_chunks", (2, 128, 9, 11), 70, **same),
        case("tensor_cores_chunks_nan_and_huge_offsets", (1, 128, 7, 6), 9, offsets="strange", **same),
        case("tensor_cores_kernel_7x7", (1, 128, 9, 8), 12, (7, 7), padding=(3, 3, 3, 3)),
        case("tensor_cores_offset_groups_of_4", (2, 32, 9, 7), 12, offset_groups=8, **same),
        case(
            "tensor_cores_offset_groups_of_8_nan_and_huge_offsets",
            (1, 32, 7, 6),
            10,
            offsets="strange",
            groups=2,
            offset_groups=4,
            stride=(2, 1),
            **same,
        ),
        # Enough pixels for the widest tiles, with sizes that no tile divides.
        tiled("wide_tile_groups", (3, 192, 67, 69), 302, groups=2, offset_groups=4, **same),
        tiled("middle_tile_offset_groups", (3, 96, 67, 69), 101, offset_groups=12, **same),
        tiled("wide_tile_strided", (2, 64, 171, 177), 140, stride=(2, 2), padding=(0, 1, 2, 3)),
        case("resnet_256x64x64", (8, 256, 64, 64), 256, large=True, **same),
        case("resnet_512x32x32", (8, 512, 32, 32), 512, large=True, **same),
        case("dla_64x128x128", (1, 64, 128, 128), 64, large=True, **same),
        case("video_16_offset_groups", (1, 128, 180, 320), 64, large=True, offset_groups=16, **same),
        case("dla_64x128x128_batch_8", (8, 64, 128, 128), 64, large=True, **same),
    )


_NETWORKS = (
    "resnet_256x64x64",
    "resnet_512x32x32",
    "dla_64x128x128",
    "video_16_offset_groups",
    "dla_64x128x128_batch_8",
)


def benchmarks(masked: bool) -> tuple[Case, ...]:
    """Lists sizes of networks: two layers of ResNet-50, DLA-34's largest alone and in a batch, a video restorer's
    alignment.
    """
    return tuple(case for case in cases(masked) if case.name in _NETWORKS)
