"""Compares two feature maps patch by patch: the correlation layer of optical flow (FlowNet, arXiv 1504.06852, 4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from math import prod
from typing import Any

import numpy as np

from trtsmith.importers.builder import Builder, Value, bounded
from trtsmith.importers.opdef import (
    Alias,
    AliasedNode,
    Arrays,
    Attr,
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
from trtsmith.importers.ops._shared import Made, faults_of_int32, size_faults, size_of, then


def expand_local_correlation(expansion: Expansion) -> Value:
    """Multiplies, for each row of displacements and each tap, by all displaced columns; sums over channels."""
    g = Builder(expansion.opset)
    f = expansion.fields
    patch, stride = 2 * f["max_displacement"] + 1, f["stride"]
    step_h, step_w = f["dilation_patch"]
    pads = f["padding"]
    far = [pad + f["max_displacement"] * step for pad, step in zip(pads, f["dilation_patch"], strict=True)]
    room = [
        2 * pad - dilation * (kernel - 1) - 1
        for pad, dilation, kernel in zip(pads, f["dilation"], f["kernel_size"], strict=True)
    ]
    sizes = g.Shape("first")
    n, c, h, w = (sizes[i : i + 1] for i in range(4))
    there = g.Expand(1.0, [1, 1, h, w])
    near_maps = [g.Pad(each, [0, 0, *pads] * 2) for each in ("first", there)]
    far_maps = [g.Pad(each, [0, 0, *far] * 2) for each in ("second", there)]
    steps = [g.Add(size, [room[i]]) / [stride[i]] for i, size in enumerate((h, w))]
    out_h, out_w = (g.Add(step, [1]) for step in steps)
    h_length, w_length = (g.Add(step * [stride[i]], [1]) for i, step in enumerate(steps))
    columns = g.arange(out_w) * [stride[1]] + np.array([[p * step_w] for p in range(bounded(patch))])
    shapes = g.vector(n, c, out_h, 1, out_w), g.vector(1, 1, out_h, 1, out_w)
    lengths = g.vector(h_length, w_length)

    def first_at(row: int, column: int) -> list[Value]:
        """Returns a tap of the first map at all places, and whether it lies inside."""
        end = g.Add([row, column], lengths)
        cuts = (g.Slice(each, [row, column], end, [2, 3], list(stride)) for each in near_maps)
        return [g.Reshape(cut, shape) for cut, shape in zip(cuts, shapes, strict=True)]

    def second_at(row: int, columns: Value) -> list[Value]:
        """Returns the same of the second map, at all displaced columns."""
        end = g.Add([row], h_length)
        rows = (g.Slice(each, [row], end, [2], [stride[0]]) for each in far_maps)
        return [g.Gather(each, columns, axis=3) for each in rows]

    bounded(prod(f["kernel_size"]))
    places = [(i * f["dilation"][0], j * f["dilation"][1]) for i, j in product(*map(range, f["kernel_size"]))]
    taps = [(row, g.Add(columns, [column]), *first_at(row, column)) for row, column in places]
    sum_shape = g.vector(n, out_h, patch, out_w)
    part_shape = g.vector(n, 1, out_h, patch, out_w)
    parts = []
    for p in range(patch):
        total = g.Expand(0.0, sum_shape)
        for row, displaced, first, first_there in taps:
            second, second_there = second_at(row + p * step_h, displaced)
            products = g.Where(second_there * first_there > 0.0, second * first, 0.0)
            total = total + g.ReduceSum(products, axes=[1], keepdims=0)
        parts.append(g.Reshape(total, part_shape))
    return g.Transpose(g.Concat(*parts, axis=1), perm=[0, 1, 3, 2, 4])


Pair = tuple[int, int]

ONE: Fields = {
    "max_displacement": 1,
    "kernel_size": (1, 1),
    "stride": (1, 1),
    "padding": (0, 0),
    "dilation": (1, 1),
    "dilation_patch": (1, 1),
}


def _strange(_rng: np.random.Generator, made: Made) -> None:
    """Infinite and NaN where no pair of pixels lies inside: corners whose partners are all outside."""
    made["first"][:, :, 0, 0] = np.inf
    made["second"][:, :, -1, -1] = np.nan


def _case(
    name: str,
    x: tuple[int, int, int, int],
    displacement: int = 1,
    change: Callable[[np.random.Generator, Made], None] | None = None,
    fields: dict[str, Pair] | None = None,
    **marks: bool,
) -> Case:
    known = {**ONE, "max_displacement": displacement, **(fields or {})}
    inputs = then(lambda rng: {port: rng.normal(size=x) for port in ("first", "second")}, change)
    return Case(name, known, inputs, **marks)


def _both(**fields: int) -> dict[str, Pair]:
    """Fields alike for height and width."""
    return {name: (value, value) for name, value in fields.items()}


BENCHMARKS = (
    # FlowNetC for images of 384 x 512; PWC-Net's levels 3 and 2 for 448 x 1024.
    _case("flownet_c", (1, 256, 48, 64), 10, fields=_both(dilation_patch=2), large=True),
    _case("pwc_net_level_3", (1, 64, 56, 128), 4, large=True),
    _case("pwc_net_level_2", (1, 32, 112, 256), 4, large=True),
)

CASES = (
    _case("one_of_each", (1, 1, 1, 1), 0),
    _case("neighbours", (2, 8, 5, 6)),
    _case("odd_channels", (2, 13, 5, 7), 2),
    _case("as_pwc_net_has_it", (1, 32, 6, 20), 4),
    _case("as_flownet_has_it", (1, 64, 6, 37), 10, fields=_both(dilation_patch=2)),
    _case("kernel_3", (1, 8, 6, 7), 2, fields=_both(kernel_size=3, padding=1)),
    _case("kernel_2x3_dilated", (2, 16, 8, 9), 1, fields={"kernel_size": (2, 3), "dilation": (2, 3)}),
    _case("strided", (2, 16, 7, 9), 2, fields=_both(stride=2, padding=2)),
    _case("strided_unequally", (1, 16, 7, 20), 2, fields={"stride": (2, 3), "dilation_patch": (3, 2)}),
    _case("steps_as_wide_as_strides", (1, 24, 7, 40), 3, fields=_both(stride=2, dilation_patch=2)),
    _case("wide_steps", (1, 16, 5, 30), 2, fields=_both(dilation_patch=4)),
    _case("wider_steps", (1, 16, 5, 30), 2, fields=_both(dilation_patch=5)),
    _case("much_padding", (1, 16, 3, 4), 1, fields=_both(padding=3)),
    _case("farther_than_the_map", (1, 8, 3, 4), 6, fields={"dilation_patch": (2, 2)}),
    _case("more_channels_than_a_step", (1, 72, 3, 18), 1),
    _case("strange_numbers_outside", (1, 16, 4, 5), 1, _strange, {"stride": (3, 4), "padding": (2, 2)}),
    _case("no_channels", (2, 0, 4, 5)),
    _case("no_batch", (0, 8, 4, 5)),
    _case("tiles", (2, 72, 9, 70), 4, large=True, tiles=True),
    _case(
        "tiles_of_kernels", (1, 20, 9, 70), 5, None, _both(kernel_size=3, padding=1), large=True, tiles=True
    ),
    *BENCHMARKS,
)


_PAIRS = ("kernel_size", "stride", "padding", "dilation", "dilation_patch")


def _side(fields: Fields, axis: int, size: Any) -> Any:
    """Rows or columns of the output, as of a convolution."""
    reach = fields["dilation"][axis] * (fields["kernel_size"][axis] - 1)
    return (size + (2 * fields["padding"][axis] - reach - 1)) // fields["stride"][axis] + 1


def _shape(fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    batch, _, *sizes = shapes["first"]
    patch = 2 * fields["max_displacement"] + 1
    sides = (_side(fields, axis, size) for axis, size in enumerate(sizes))
    return {"output": (batch, patch, patch, *sides)}


def _check(fields: Fields, shapes: Mapping[str, tuple[int | None, ...]]) -> list[str]:
    faults = size_faults(shapes, *(("second", axis, "first", axis) for axis in range(4)))
    for axis, name in enumerate(("height", "width")):
        size = size_of(shapes, "first", axis + 2)
        if size is not None and _side(fields, axis, size) < 1:
            faults.append(f"the kernel does not fit into the {name} of {size}, with its padding")
        steps = fields["max_displacement"] * fields["dilation_patch"][axis]
        reach = fields["dilation"][axis] * (fields["kernel_size"][axis] - 1)
        for what, distance in (
            ("displacement", steps),
            ("kernel", reach),
            ("padding", fields["padding"][axis]),
        ):
            if distance > 2**29:
                faults.append(f"{name} of the {what} is {distance}, more than 2^29")
    return faults + faults_of_int32(shapes, ("first", 2), ("first", 3))


def _reference(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """Displacement by displacement and tap by tap, where both pixels lie inside."""
    first, second = inputs["first"].astype(np.float64), inputs["second"].astype(np.float64)
    output = np.zeros(_shape(fields, {"first": first.shape})["output"])
    radius = fields["max_displacement"]

    def inside(axis: int, tap: int, shift: int) -> tuple[np.ndarray, np.ndarray]:
        """Which rows (columns) of the output count, and where the first pixel lies for them."""
        count, size = output.shape[3 + axis], first.shape[2 + axis]
        at = (
            np.arange(count) * fields["stride"][axis]
            - fields["padding"][axis]
            + tap * fields["dilation"][axis]
        )
        kept = np.flatnonzero((at >= 0) & (at < size) & (at + shift >= 0) & (at + shift < size))
        return kept, at[kept]

    for p, q in np.ndindex(output.shape[1:3]):
        dy, dx = (p - radius) * fields["dilation_patch"][0], (q - radius) * fields["dilation_patch"][1]
        for i, j in np.ndindex(*fields["kernel_size"]):
            (rows, y), (columns, x) = inside(0, i, dy), inside(1, j, dx)
            one = first[:, :, y[:, None], x]
            other = second[:, :, (y + dy)[:, None], x + dx]
            output[:, p, q, rows[:, None], columns] += (one * other).sum(1)
    return {"output": output}


def _torch_reference(fields: Fields, inputs: Mapping[str, Any]) -> tuple[Any]:
    """Products of slices of padded maps; those with a pixel of the padding are zero."""
    import torch
    import torch.nn.functional as functional

    first, second = inputs["first"], inputs["second"]
    batch, patch, _, height, width = _shape(fields, {"first": first.shape})["output"]
    (stride_h, stride_w), (pad_h, pad_w) = fields["stride"], fields["padding"]
    (step_h, step_w), radius = fields["dilation_patch"], fields["max_displacement"]

    def padded(tensor: Any, further: int) -> Any:
        h, w = pad_h + further * step_h, pad_w + further * step_w
        return functional.pad(tensor, (w, w, h, h))

    def window(tensor: Any, row: int, column: int) -> Any:
        rows = slice(row, row + (height - 1) * stride_h + 1, stride_h)
        return tensor[:, :, rows, column : column + (width - 1) * stride_w + 1 : stride_w]

    there = torch.ones_like(first[:1, :1]) if batch else first.new_ones(1, 1, *first.shape[2:])
    if there.shape[1] == 0:
        there = first.new_ones(1, 1, *first.shape[2:])
    near, far = padded(first, 0), padded(second, radius)
    near_there, far_there = padded(there, 0), padded(there, radius)
    output = first.new_zeros(batch, patch, patch, height, width)
    for p, q in np.ndindex(patch, patch):
        for i, j in np.ndindex(*fields["kernel_size"]):
            row, column = i * fields["dilation"][0], j * fields["dilation"][1]
            moved = row + p * step_h, column + q * step_w
            counts = (window(near_there, row, column) * window(far_there, *moved)) > 0
            products = window(near, row, column) * window(far, *moved)
            output[:, p, q] += torch.where(counts, products, torch.zeros_like(products)).sum(1)
    return (output,)


def _work(fields: Fields, shapes: Shapes) -> Work:
    batch, patch, _, height, width = shapes["output"]
    taps = fields["kernel_size"][0] * fields["kernel_size"][1]
    return Work(flops=0, matrix_flops=2 * taps * shapes["first"][1] * batch * patch * patch * height * width)


def _pairs(node: AliasedNode) -> Fields:
    """mmcv takes one number or two for all but the displacement."""
    a = node.attrs
    pairs = {name: a[name] * 2 if len(a[name]) == 1 else a[name] for name in _PAIRS}
    return {"max_displacement": a["max_displacement"], **pairs}


def _patch_guard(node: AliasedNode) -> Refusal | None:
    """Its plugin does not dilate: it leaves out channels."""
    size, dilation = node.attrs["patchsize"], node.attrs["dilation"]
    if size < 1 or size % 2 == 0:
        return Refusal(f"patchsize is {size}", "an odd number, 1 or more", "export the node with one")
    if dilation != 1:
        return Refusal(f"dilation is {dilation}", "1", "export the node with a dilation of 1")
    return None


def _patch_fields(node: AliasedNode) -> Fields:
    same = {name: (0, 0) if name == "padding" else (1, 1) for name in _PAIRS}
    return {"max_displacement": node.attrs["patchsize"] // 2, **same}


def _flat(node: AliasedNode) -> dict[str, Value]:
    g = node.builder()
    sizes = g.Shape("output")
    return {"flat": g.Reshape("output", [sizes[:1], node.attrs["patchsize"] ** 2, sizes[3:5]])}


def _pair(name: str, doc: str, default: int, minimum: int = 1) -> Field:
    return Field(name, Kind.INTS, f"(height, width), {doc}", 2, (default, default), minimum)


LOCAL_CORRELATION = OpDef(
    name="LocalCorrelation",
    doc=(
        "Products of patches of two maps, summed over channels and the kernel, for every displacement of the second (the "
        "correlation layer of FlowNet and PWC-Net). Output (p, q, y, x) pairs pixel (y, x) * stride - padding + tap * "
        "dilation of the first map with that one plus ((p, q) - max_displacement) * dilation_patch of the second. A pair "
        "of which one pixel lies outside counts as nothing. The sum is not divided by anything."
    ),
    inputs=(Port("first", "T", 4, "[N, C, H, W]"), Port("second", "T", 4, "[N, C, H, W]")),
    outputs=(Port("output", "T", 5, "[N, P, P, Ho, Wo], P = 2 * max_displacement + 1"),),
    fields=(
        Field("max_displacement", Kind.INT, "steps of displacements to each side", default=1, minimum=0),
        _pair("kernel_size", "pixels of a patch that are compared", 1),
        _pair("stride", "from one output to the next", 1),
        _pair("padding", "around the first map, on both sides", 0, 0),
        _pair("dilation", "between pixels of a kernel", 1),
        _pair("dilation_patch", "pixels of a step of displacement", 1),
    ),
    shape=_shape,
    check=_check,
    reference=_reference,
    torch_reference=_torch_reference,
    expand=expand_local_correlation,
    aliases=(
        Alias(
            op_type="Correlation",
            domains=("mynamespace",),
            inputs=("first", "second"),
            attributes=attrs(patchsize=int, dilation=1),
            guard=_patch_guard,
            fields=_patch_fields,
            epilogue=_flat,
            outputs=("flat",),
            source="FastFlowNet, tensorrt_workspace/fastflownet and its correlationPlugin",
        ),
        # mmcv has no exporter for it: users' own nodes have the name of the class, or of mmcv's other plugins, and
        # attributes as its CorrelationFunction names them. The class's own name is others', too: max_displacement tells.
        *(
            Alias(
                op_type=name,
                domains=("mmcv", "mmdeploy"),
                inputs=("first", "second"),
                attributes=(
                    Attr("kernel_size", Kind.INTS, (1,), (1, 2)),
                    Attr("max_displacement", Kind.INT, *default),
                    Attr("stride", Kind.INTS, (1,), (1, 2)),
                    Attr("padding", Kind.INTS, (1,), (1, 2)),
                    Attr("dilation", Kind.INTS, (1,), (1, 2)),
                    Attr("dilation_patch", Kind.INTS, (1,), (1, 2)),
                ),
                fields=_pairs,
                source="mmcv, ops/correlation and csrc/common/cuda/correlation_cuda",
            )
            for name, default in (("MMCVCorrelation", (1,)), ("Correlation", ()))
        ),
    ),
    cases=CASES,
    tolerance={"float32": 2e-7, "float16": 6e-4, "bfloat16": 4.5e-3},
    benchmarks=BENCHMARKS,
    baselines={"shifted_products": _torch_reference},
    work=_work,
    workspace=True,
)
