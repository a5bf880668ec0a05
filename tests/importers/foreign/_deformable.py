"""Shared by the examples of both deformable convolutions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tests.importers.foreign.model import Arrays, Huge, HugeCase, Inconsistent, numbers
from tests.importers.oracles import deformable_convolution
from trtsmith.importers.ops.modulated_deformable_convolution import MODULATED_DEFORMABLE_CONVOLUTION

GEOMETRY: dict[str, Any] = {"stride": (2, 1), "dilation": (1, 2), "groups": 2, "offset_groups": 3}
"""x [2, 6, 8, 9], kernel 3x2, padding 1 above, 1 below, 2 at either side: output 4 x 11."""

SQUARE: dict[str, Any] = {"stride": (2, 2), "dilation": (1, 1), "groups": 2, "offset_groups": 3}


def convolution_inputs(order: str, height: int = 4, width: int = 11, kernel: tuple[int, int] = (3, 2)) -> Any:
    """A maker of inputs in the order of a word list; a name in brackets is left unconnected."""

    def make() -> dict[str, np.ndarray | None]:
        rng = np.random.default_rng(3)
        taps = 3 * kernel[0] * kernel[1]
        arrays = {
            "x": rng.normal(size=(2, 6, 8, 9)),
            "offset": rng.normal(scale=2, size=(2, 2 * taps, height, width)),
            "mask": rng.uniform(size=(2, taps, height, width)),
            "weight": rng.normal(size=(4, 3, *kernel)),
            "bias": rng.normal(size=4),
        }
        return {
            name.strip("()"): None if name.startswith("(") else arrays[name].astype(np.float32)
            for name in order.split()
        }

    return make


def convolution(
    top_left: tuple[int, int] = (1, 2), geometry: Mapping[str, Any] = GEOMETRY
) -> Callable[[Arrays], np.ndarray]:
    return lambda inputs: deformable_convolution(**inputs, top_left=top_left, **geometry)


NUMBERS = {
    "stride_h": 2, "stride_w": 1, "pad_h": 1, "pad_w": 2, "dilation_h": 1, "dilation_w": 2, "groups": 2,
    "offset_groups": 3,
}  # fmt: skip


def torchvision_inputs(use_mask: bool) -> dict[str, np.ndarray | None]:
    """As the exporter falls through: every argument an input, a mask of [N, 1] where there is none."""
    inputs = dict(convolution_inputs("x weight offset mask bias")())
    if not use_mask:
        inputs["mask"] = np.zeros((2, 1), np.float32)
    numbers = {name: np.array(value, np.int64) for name, value in NUMBERS.items()}
    return {**inputs, **numbers, "use_mask": np.array(use_mask)}


def torchvision(inputs: Arrays) -> np.ndarray:
    tensors = {n: a for n, a in inputs.items() if n in ("x", "weight", "offset", "mask", "bias")}
    if tensors["mask"].shape == (2, 1):
        del tensors["mask"]
    return deformable_convolution(**tensors, top_left=(1, 2), **GEOMETRY)


MMCV: dict[str, Any] = {
    "stride": [2, 1],
    "padding": [1, 2],
    "dilation": [1, 2],
    "groups": 2,
    "deform_groups": 3,
}
ONNX: dict[str, Any] = {
    "strides": [2, 1],
    "pads": [1, 2, 1, 2],
    "dilations": [1, 2],
    "group": 2,
    "offset_group": 3,
}
OWN: dict[str, Any] = {
    "stride": [2, 1],
    "padding": [1, 2, 1, 2],
    "dilation": [1, 2],
    "groups": 2,
    "offset_groups": 3,
}
ARGUMENTS = frozenset((*NUMBERS, "use_mask"))

SHAPES = {
    "x": (2, 12, 9, 8),
    "offset": (2, 36, 5, 8),
    "mask": (2, 18, 5, 8),
    "weight": (6, 4, 3, 3),
    "bias": (6,),
}
FIELDS = {"stride": (2, 1), "padding": (1, 1, 1, 1), "dilation": (1, 1), "groups": 3, "offset_groups": 2}

_WRONG: tuple[tuple[dict[str, Any], dict[str, tuple[int, ...]], str], ...] = (
    ({}, {"weight": (6, 5, 3, 3)}, "weight[1] = 5, not 4 = x[1] / groups"),
    ({"groups": 5}, {}, "groups = 5 does not divide x[1] = 12"),
    ({}, {"weight": (7, 4, 3, 3), "bias": (7,)}, "groups = 3 does not divide weight[0] = 7"),
    ({"offset_groups": 5}, {}, "offset_groups = 5 does not divide x[1] = 12"),
    ({}, {"offset": (2, 18, 5, 8)}, "offset[1] = 18, not 36 = 2 * offset_groups * KH * KW"),
    ({}, {"offset": (1, 36, 5, 8)}, "offset[0] = 1, not 2 = x[0]"),
    ({}, {"offset": (2, 36, 9, 8)}, "offset[2] = 9, not 5 = the size of the convolution's output"),
    ({}, {"offset": (2, 36, 5, 9)}, "offset[3] = 9, not 8 = the size of the convolution's output"),
    ({}, {"bias": (5,)}, "bias[0] = 5, not 6 = weight[0]"),
    ({}, {"weight": (6, 4, 0, 3)}, "weight[2] = 0"),
)


def inconsistent(op: str, *, masked: bool) -> list[Inconsistent]:
    """What both operators check."""
    shapes = {name: shape for name, shape in SHAPES.items() if masked or name != "mask"}
    return [Inconsistent(op, shapes, change, message, FIELDS, fields) for fields, change, message in _WRONG]


def huge_convolution(masked: bool) -> HugeCase:
    """Two channels and a 1x1 kernel: at 32800x32800, x, offset and output have 2.15e9 elements each (4.3 GB).

    The reference runs on a crop of both far corners. Offsets are quarters of a pixel, up to 4: exact in float32 at any
    position, so that the crop's small coordinates mean the same.
    """
    crop, reach = 96, 6
    fields = {"stride": (1, 1), "padding": (0, 0, 0, 0), "dilation": (1, 1), "groups": 1, "offset_groups": 1}

    def make(side: int, device: str) -> Huge:
        import torch

        half: dict[str, Any] = {"device": device, "dtype": torch.float16}
        offset = torch.randint(-16, 17, (1, 2, side, side), device=device, dtype=torch.int8).to(torch.float16)
        inputs = {"x": torch.randn(1, 2, side, side, **half), "offset": offset.div_(4)}
        if masked:
            inputs["mask"] = torch.rand(1, 1, side, side, **half)
        inputs |= {"weight": torch.randn(2, 2, 1, 1, **half), "bias": torch.randn(2, **half)}

        def check(outputs: list[Any]) -> list[tuple[str, np.ndarray, np.ndarray]]:
            results = []
            places = {
                "near corner": (slice(0, crop), slice(0, crop - reach)),
                "far corner": (slice(side - crop, side), slice(reach, crop)),
            }
            for place, (part, inner) in places.items():
                arrays = {
                    name: (tensor[:, :, part, part] if tensor.shape[2:] == (side, side) else tensor)
                    .cpu()
                    .numpy()
                    for name, tensor in inputs.items()
                }
                wanted = MODULATED_DEFORMABLE_CONVOLUTION.reference(fields, arrays)["output"][
                    :, :, inner, inner
                ]
                results.append((place, numbers(outputs[0][:, :, part, part][:, :, inner, inner]), wanted))
            return results

        return Huge(fields, inputs, check)

    return HugeCase(make, size=32800, small=150)
