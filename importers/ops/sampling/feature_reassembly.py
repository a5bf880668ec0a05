"""Enlarges feature maps by predicted kernels: content-aware reassembly, CARAFE (Wang et al., arXiv 1905.02188)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.generation import Meaning
from trtsmith.importers.opdef import (
    Alias,
    AliasedNode,
    Arrays,
    Case,
    Expansion,
    Field,
    Fields,
    Kind,
    OpDef,
    Port,
    Refusal,
    Shapes,
    Work,
    attrs,
)
from trtsmith.importers.ops._shared import MOST, Made, size_faults, then


def _fields(kernel: int, groups: int, scale: int) -> Fields:
    return {"kernel_size": kernel, "groups": groups, "scale_factor": scale}


def _inputs(rng: np.random.Generator, x: tuple[int, int, int, int], fields: Fields) -> Made:
    """Masks are shares, as a softmax gives them."""
    groups, scale = fields["groups"], fields["scale_factor"]
    taps = fields["kernel_size"] ** 2
    scores = np.exp(rng.normal(size=(x[0], groups, taps, x[2] * scale, x[3] * scale)))
    masks = scores / scores.sum(2, keepdims=True)
    return {"x": rng.normal(size=x), "masks": masks.reshape(x[0], groups * taps, *masks.shape[3:])}


def _strange_outside(rng: np.random.Generator, made: Made, fields: Fields) -> None:
    """Masks of taps above the map are NaN and infinite, as they are not read."""
    kernel, scale = fields["kernel_size"], fields["scale_factor"]
    taps = made["masks"].reshape(
        len(made["masks"]), fields["groups"], kernel, kernel, *made["masks"].shape[2:]
    )
    taps[:, :, 0, :, : kernel // 2 * scale] = np.nan
    taps[:, :, :, -1, :, -scale:] = np.inf


def _case(
    name: str,
    x: tuple[int, int, int, int],
    fields: tuple[int, int, int] = (5, 1, 2),
    change: Callable[[np.random.Generator, Made, Fields], None] | None = None,
    **marks: bool,
) -> Case:
    known = _fields(*fields)
    return Case(name, known, then(lambda rng: _inputs(rng, x, known), change, known), **marks)


BENCHMARKS = (
    # The three maps that a feature pyramid with CARAFE enlarges, for images of 800 x 1216.
    _case("pyramid_100x152", (1, 256, 100, 152), large=True),
    _case("pyramid_50x76", (1, 256, 50, 76), large=True),
    _case("pyramid_25x38", (1, 256, 25, 38), large=True),
)

CASES = (
    _case("one_of_each", (1, 1, 1, 1), (1, 1, 1)),
    _case("as_networks_have_it", (2, 64, 6, 9)),
    _case("odd_channels", (2, 13, 5, 7)),
    _case("kernel_3", (1, 8, 5, 7), (3, 1, 2)),
    _case("kernel_7", (1, 16, 4, 5), (7, 1, 2)),
    _case("kernel_larger_than_the_map", (1, 8, 2, 3), (5, 1, 2)),
    _case("same_size", (2, 16, 5, 7), (5, 1, 1)),
    _case("scale_3", (1, 16, 4, 5), (3, 1, 3)),
    _case("scale_4", (1, 16, 4, 5), (3, 1, 4)),
    _case("scale_6", (1, 8, 3, 4), (3, 1, 6)),
    _case("groups", (2, 32, 4, 5), (3, 2, 2)),
    _case("groups_of_odd_channels", (2, 15, 4, 5), (3, 3, 2)),
    _case("one_channel_a_group", (1, 6, 4, 5), (3, 6, 2)),
    _case("more_channels_than_a_slice", (1, 88, 3, 5), (3, 1, 2)),
    _case("wider_than_a_tile", (1, 8, 2, 37), (3, 1, 2)),
    _case("strange_masks_outside", (2, 16, 4, 5), (3, 1, 2), _strange_outside),
    _case("strange_masks_outside_groups_of_odd_channels", (2, 6, 4, 5), (3, 2, 2), _strange_outside),
    _case("no_channels", (2, 0, 4, 5)),
    _case("no_rows", (2, 8, 0, 5)),
    _case("no_batch", (0, 8, 4, 5)),
    _case("tiles", (2, 136, 9, 70), large=True, tiles=True),
    _case("tiles_of_groups", (1, 144, 9, 40), (3, 2, 4), large=True, tiles=True),
    *BENCHMARKS,
)


def expand_feature_reassembly(expansion: Expansion) -> Value:
    """Adds up the map shifted by each tap, times the tap's masks."""
    g = Builder(expansion.opset)
    kernel, groups, scale = (expansion.fields[name] for name in ("kernel_size", "groups", "scale_factor"))
    pads = [0, 0, kernel // 2, kernel // 2] * 2
    sizes = g.Shape("x")
    n, c, h, w = (sizes[i : i + 1] for i in range(4))
    plane = sizes[2:4]
    each = c / [groups]
    map_shape = g.vector(n, groups, each, h, 1, w, 1)
    there_shape = g.vector(1, 1, 1, h, 1, w, 1)
    mask_shape = g.vector(n, groups, 1, h, scale, w, scale)
    padded, there = g.Pad("x", pads), g.Pad(g.Expand(1.0, [1, 1, h, w]), pads)
    masks = g.Reshape("masks", [n, groups, kernel * kernel, h, scale, w, scale])
    total = g.Expand(0.0, [n, groups, each, h, scale, w, scale])
    for tap in range(kernel * kernel):
        start = [tap // kernel, tap % kernel]
        end = g.Add(start, plane)
        moved = g.Slice(padded, start, end, [2, 3])
        moved_there = g.Slice(there, start, end, [2, 3])
        mask = g.Reshape(g.Slice(masks, [tap], [tap + 1], [2]), mask_shape)
        weight = g.Where(g.Reshape(moved_there, there_shape) > 0.0, mask, 0.0)
        total = total + g.Reshape(moved, map_shape) * weight
    return g.Reshape(total, [n, c, h * [scale], w * [scale]])


_MOST_KERNEL, _MOST_SCALE = 1023, 1024
"""What the kernel counts with 32 bits."""


def _shape(fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    batch, channels, height, width = shapes["x"]
    scale = fields["scale_factor"]
    return {"output": (batch, channels, height * scale, width * scale)}


def _check(fields: Fields, shapes: Mapping[str, tuple[int | None, ...]]) -> list[str]:
    kernel, groups, scale = fields["kernel_size"], fields["groups"], fields["scale_factor"]
    faults = [] if kernel % 2 else [f"kernel_size = {kernel} is even, so that no tap is its middle"]
    faults += [f"kernel_size = {kernel} is more than {_MOST_KERNEL}"] if kernel > _MOST_KERNEL else []
    faults += [f"scale_factor = {scale} is more than {_MOST_SCALE}"] if scale > _MOST_SCALE else []
    x = shapes.get("x", (None,) * 4)
    if x[1] is not None and x[1] % groups:
        faults.append(f"groups = {groups} does not divide x[1] = {x[1]}")
    wanted = (x[0], groups * kernel * kernel, *(None if size is None else size * scale for size in x[2:]))
    whats = ("x[0]", "groups * kernel_size^2", "x[2] * scale_factor", "x[3] * scale_factor")
    faults += size_faults(shapes, *(("masks", axis, wanted[axis], what) for axis, what in enumerate(whats)))
    for axis, side in enumerate(wanted[2:], 2):
        if side is not None and side > MOST:
            faults.append(f"output[{axis}] = {side}, more than 2^31 - 1")
    return faults


def _reference(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """Tap by tap, each on the part of the map where it lies inside."""
    x, masks = inputs["x"].astype(np.float64), inputs["masks"].astype(np.float64)
    batch, channels, height, width = x.shape
    kernel, groups, scale = fields["kernel_size"], fields["groups"], fields["scale_factor"]
    grouped = x.reshape(batch, groups, channels // groups, height, 1, width, 1)
    kernels = masks.reshape(batch, groups, kernel, kernel, height, scale, width, scale)
    output = np.zeros((batch, groups, channels // groups, height, scale, width, scale))

    def inside(size: int, move: int) -> tuple[slice, slice]:
        """The places whose tap lies inside, and those taps."""
        first, end = max(0, -move), max(min(size, size - move), 0)
        end = max(end, first)
        return slice(first, end), slice(first + move, end + move)

    for i, j in np.ndindex(kernel, kernel):
        rows, tap_rows = inside(height, i - kernel // 2)
        columns, tap_columns = inside(width, j - kernel // 2)
        if rows.start >= height or columns.start >= width:
            continue
        weights = kernels[:, :, None, i, j, rows, :, columns]
        output[:, :, :, rows, :, columns] += grouped[:, :, :, tap_rows, :, tap_columns] * weights
    return {"output": output.reshape(batch, channels, height * scale, width * scale)}


def _torch_reference(fields: Fields, inputs: Mapping[str, Any]) -> tuple[Any]:
    """unfold, and a sum over taps; masks of taps outside are zero."""
    import torch
    import torch.nn.functional as functional

    x, masks = inputs["x"], inputs["masks"]
    batch, channels, height, width = x.shape
    kernel, groups, scale = fields["kernel_size"], fields["groups"], fields["scale_factor"]
    if x.numel() == 0:
        return (x.new_zeros(batch, channels, height * scale, width * scale),)
    taps, radius = kernel * kernel, kernel // 2
    columns = functional.unfold(x, kernel, padding=radius)
    columns = columns.view(batch, groups, channels // groups, taps, height, 1, width, 1)
    there = functional.unfold(x.new_ones(1, 1, height, width), kernel, padding=radius)
    there = there.view(1, 1, taps, height, 1, width, 1) > 0
    kernels = masks.reshape(batch, groups, taps, height, scale, width, scale)
    kernels = torch.where(there, kernels, torch.zeros_like(kernels))
    output = torch.zeros_like(columns[:, :, :, 0] * kernels[:, :, None, 0])
    for tap in range(taps):
        output = output + columns[:, :, :, tap] * kernels[:, :, None, tap]
    return (output.reshape(batch, channels, height * scale, width * scale),)


def _unfold(fields: Fields, inputs: Mapping[str, Any]) -> tuple[Any]:
    """What PyTorch code without mmcv does: the map is enlarged and unfolded (ultralytics' forks have it so)."""
    import torch
    import torch.nn.functional as functional

    x, masks = inputs["x"], inputs["masks"]
    batch, channels = x.shape[:2]
    kernel, groups, scale = fields["kernel_size"], fields["groups"], fields["scale_factor"]
    taps = functional.unfold(x, kernel, padding=kernel // 2)
    taps = taps.view(batch, -1, *x.shape[2:]).repeat_interleave(scale, 2).repeat_interleave(scale, 3)
    taps = taps.view(batch, groups, channels // groups, kernel * kernel, *masks.shape[2:])
    kernels = masks.view(batch, groups, kernel * kernel, *masks.shape[2:])
    return (torch.einsum("ngckhw,ngkhw->ngchw", taps, kernels).reshape(batch, channels, *masks.shape[2:]),)


def _work(fields: Fields, shapes: Shapes) -> Work:
    batch, channels, height, width = shapes["output"]
    return Work(flops=2 * fields["kernel_size"] ** 2 * batch * channels * height * width)


def _guard(node: AliasedNode) -> Refusal | None:
    """The exporter writes the scale as a float; mmcv's operator takes an integer."""
    scale = node.attrs["scale_factor"]
    if scale < 1 or scale != int(scale):
        return Refusal(f"scale_factor is {scale}", "a whole number, 1 or more", "export the node with one")
    return None


def _alias_fields(node: AliasedNode) -> Fields:
    a = node.attrs
    return {
        "kernel_size": a["kernel_size"],
        "groups": a["group_size"],
        "scale_factor": int(a["scale_factor"]),
    }


FEATURE_REASSEMBLY = OpDef(
    name="FeatureReassembly",
    doc=(
        "Enlarges feature maps by kernels that a network predicts (CARAFE): output (y, x) is the sum of the kernel_size x "
        "kernel_size pixels around (y // scale_factor, x // scale_factor), each times the mask of its tap at (y, x). "
        "Channels in groups have masks of their own. A tap outside of the map counts as nothing."
    ),
    inputs=(
        Port("x", "T", 4, "[N, C, H, W]"),
        Port(
            "masks",
            "T",
            4,
            "[N, G*K*K, H*scale_factor, W*scale_factor], softmax already applied where there is one",
            meaning=Meaning.SHARE,
        ),
    ),
    outputs=(Port("output", "T", 4, "[N, C, H*scale_factor, W*scale_factor]"),),
    fields=(
        Field("kernel_size", Kind.INT, "K, odd", default=5, minimum=1),
        Field(
            "groups",
            Kind.INT,
            "G, groups of channels with masks of their own; divides C",
            default=1,
            minimum=1,
        ),
        Field("scale_factor", Kind.INT, "how many times as high and as wide", default=2, minimum=1),
    ),
    shape=_shape,
    check=_check,
    reference=_reference,
    torch_reference=_torch_reference,
    expand=expand_feature_reassembly,
    aliases=tuple(
        Alias(
            op_type=op_type,
            domains=("mmcv", "mmdeploy"),
            inputs=("x", "masks"),
            attributes=attrs(kernel_size=int, group_size=int, scale_factor=float),
            guard=_guard,
            fields=_alias_fields,
            source="mmcv, ops/carafe and csrc/common/cuda/carafe_naive_cuda_kernel",
        )
        for op_type in ("MMCVCARAFE", "MMCVCARAFENaive")
    ),
    cases=CASES,
    tolerance={"float32": 1.9e-7, "float16": 6e-4, "bfloat16": 4.5e-3},
    benchmarks=BENCHMARKS,
    baselines={"unfold": _unfold},
    work=_work,
    workspace=True,
)
