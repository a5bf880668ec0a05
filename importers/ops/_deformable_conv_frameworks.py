"""Deformable convolution in PyTorch: other implementations to time ours against, and a case of more than 2^31 elements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from trtsmith.importers.opdef import Fields, Huge, HugeCase
from trtsmith.importers.ops._deformable_conv import reference
from trtsmith.importers.ops._huge import numbers


def _torchvision(fields: Fields, tensors: Mapping[str, Any]) -> tuple[Any]:
    """Padding that is not the same on both sides goes on the input: torchvision has none. Zeros outside mean the same."""
    import torch
    from torchvision.ops import deform_conv2d

    x, padding = tensors["x"], _symmetric(fields)
    if padding is None:
        top, left, bottom, right = fields["padding"]
        x, padding = torch.nn.functional.pad(x, (left, right, top, bottom)), (0, 0)
    output = deform_conv2d(
        x,
        tensors["offset"],
        tensors["weight"],
        tensors.get("bias"),
        stride=tuple(fields["stride"]),
        padding=padding,
        dilation=tuple(fields["dilation"]),
        mask=tensors.get("mask"),
    )
    return (output,)


def _convolution(fields: Fields, tensors: Mapping[str, Any]) -> tuple[Any]:
    """A plain convolution of the same size."""
    import torch

    padding = _symmetric(fields)
    if padding is None:
        raise ValueError("the padding differs between the sides")
    output = torch.nn.functional.conv2d(
        tensors["x"],
        tensors["weight"],
        tensors.get("bias"),
        stride=tuple(fields["stride"]),
        padding=padding,
        dilation=tuple(fields["dilation"]),
        groups=fields["groups"],
    )
    return (output,)


def _symmetric(fields: Fields) -> tuple[int, int] | None:
    """(height, width), or None where it is not the same on both sides."""
    top, left, bottom, right = fields["padding"]
    return (top, left) if (top, left) == (bottom, right) else None


BASELINES = {"torchvision": _torchvision, "convolution": _convolution}


def huge(masked: bool) -> HugeCase:
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
                wanted = reference(fields, arrays)["output"][:, :, inner, inner]
                results.append((place, numbers(outputs[0][:, :, part, part][:, :, inner, inner]), wanted))
            return results

        return Huge(fields, inputs, check)

    return HugeCase(make, size=32800, small=150)
