"""Compares two feature maps patch by patch: the correlation layer of optical flow (FlowNet, arXiv 1504.06852, 4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from trtsmith.importers.builder import Value
from trtsmith.importers.opdef import (
    Alias,
    AliasedNode,
    Arrays,
    Attr,
    Field,
    Fields,
    Kind,
    OpDef,
    Port,
    Refusal,
    Shapes,
    Work,
)
from trtsmith.importers.ops._limits import faults_of_int32
from trtsmith.importers.ops.sampling._local_correlation_cases import BENCHMARKS, CASES, huge
from trtsmith.importers.ops.sampling._local_correlation_onnx import expand_local_correlation

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
    faults = []
    first, second = shapes.get("first", (None,) * 4), shapes.get("second", (None,) * 4)
    for axis, (one, other) in enumerate(zip(first, second, strict=True)):
        if one is not None and other is not None and one != other:
            faults.append(f"second[{axis}] = {other}, but first[{axis}] = {one}")
    for axis, name in enumerate(("height", "width")):
        size = first[axis + 2]
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
        # mmcv has no exporter for it: attributes as its CorrelationFunction names them.
        Alias(
            op_type="MMCVCorrelation",
            domains=("mmcv", "mmdeploy"),
            inputs=("first", "second"),
            attributes=(
                Attr("kernel_size", Kind.INTS, (1,), (1, 2)),
                Attr("max_displacement", Kind.INT, 1),
                Attr("stride", Kind.INTS, (1,), (1, 2)),
                Attr("padding", Kind.INTS, (1,), (1, 2)),
                Attr("dilation", Kind.INTS, (1,), (1, 2)),
                Attr("dilation_patch", Kind.INTS, (1,), (1, 2)),
            ),
            fields=_pairs,
            source="mmcv, ops/correlation and csrc/common/cuda/correlation_cuda",
        ),
        Alias(
            op_type="Correlation",
            domains=("mynamespace",),
            inputs=("first", "second"),
            attributes=(Attr("patchsize", Kind.INT), Attr("dilation", Kind.INT, 1)),
            guard=_patch_guard,
            fields=_patch_fields,
            epilogue=_flat,
            outputs=("flat",),
            source="FastFlowNet, tensorrt_workspace/fastflownet and its correlationPlugin",
        ),
    ),
    cases=CASES,
    tolerance={"float32": 2e-7, "float16": 6e-4, "bfloat16": 4.5e-3},
    huge=huge(_reference),
    benchmarks=BENCHMARKS,
    baselines={"shifted_products": _torch_reference},
    work=_work,
    workspace=True,
)
