"""Multi-scale deformable attention from reference points, sampling offsets and logits.

Zhu et al., Deformable DETR, arXiv 2010.04159: equation 3, and appendix A.4 for boxes. Locations and softmaxed weights, two
of the largest tensors of a detector's encoder, are never written.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trtsmith.importers.generation import Meaning
from trtsmith.importers.opdef import Arrays, Fields, OpDef, Port, Shapes
from trtsmith.importers.ops._multiscale_deformable_attention_aliases import OFFSET_ALIASES
from trtsmith.importers.ops._multiscale_deformable_attention_from_offsets_cases import BENCHMARKS, CASES, work
from trtsmith.importers.ops._multiscale_deformable_attention_huge import HUGE_OF_OFFSETS
from trtsmith.importers.ops._multiscale_deformable_attention_onnx import expand_from_offsets
from trtsmith.importers.ops.multiscale_deformable_attention import (
    MULTISCALE_DEFORMABLE_ATTENTION as FROM_LOCATIONS,
)


def _shape(_fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    batch, _, heads, channels = shapes["value"]
    return {"output": (batch, shapes["sampling_offsets"][1], heads * channels)}


_AGREEING = {
    "batch of offsets": (("sampling_offsets", 0), ("attention_logits", 0)),
    "heads": (("value", 2), ("sampling_offsets", 2), ("attention_logits", 2)),
    "queries": (("reference_points", 1), ("sampling_offsets", 1), ("attention_logits", 1)),
    "levels": (
        ("spatial_shapes", 0),
        ("level_start_index", 0),
        ("sampling_offsets", 3),
        ("attention_logits", 3),
    ),
    "points": (("sampling_offsets", 4), ("attention_logits", 4)),
}
"""(port, axis) of sizes that are one."""

_SHARED = {"levels": ("reference_points", 2)}
"""(port, axis) of sizes that may also be 1."""


def _check(_fields: Fields, shapes: Any) -> list[str]:
    """Heads, levels, points and queries must agree between the inputs; points, offsets and logits may be shared."""

    def size(port: str, axis: int) -> int | None:
        return shapes[port][axis] if port in shapes else None

    faults = []
    for what, places in _AGREEING.items():
        known = {f"{port}[{axis}]": size(port, axis) for port, axis in places if size(port, axis) is not None}
        if len(set(known.values())) > 1:
            faults.append(f"{what} differ: " + ", ".join(f"{place} = {n}" for place, n in known.items()))
        elif what in _SHARED and known:
            port, axis = _SHARED[what]
            place, wanted = next(iter(known.items()))
            if size(port, axis) not in (None, 1, wanted):
                faults.append(
                    f"{what} differ: {place} = {wanted}, {port}[{axis}] = {size(port, axis)}, not 1"
                )
    batch, references, offsets = size("value", 0), size("reference_points", 0), size("sampling_offsets", 0)
    if batch is not None and references not in (None, 1, batch):
        faults.append(f"batch differ: value[0] = {batch}, reference_points[0] = {references}, not 1")
    if batch is not None and offsets is not None and (batch % offsets if offsets else batch):
        faults.append(f"value[0] = {batch} is no multiple of sampling_offsets[0] = {offsets}")
    for port, axis, wanted in (("spatial_shapes", 1, 2), ("sampling_offsets", 5, 2)):
        if size(port, axis) not in (None, wanted):
            faults.append(f"{port}[{axis}] = {size(port, axis)}, not {wanted}")
    if size("reference_points", 4) not in (None, 2, 4):
        faults.append(f"reference_points[4] = {size('reference_points', 4)}, not 2 (points) or 4 (boxes)")
    groups, points = size("reference_points", 3), size("attention_logits", 4)
    if groups == 0 or (groups is not None and points is not None and points % groups):
        faults.append(f"points = {points} are no multiple of reference_points[3] = {groups}")
    return faults


def _reference(_fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """Locations and weights as the paper has them, in float64, and then as from these."""
    centres = inputs["reference_points"].astype(np.float64)
    shared = len(inputs["value"]) // max(len(inputs["sampling_offsets"]), 1)
    offsets = inputs["sampling_offsets"].astype(np.float64).repeat(shared, axis=0)
    logits = inputs["attention_logits"].astype(np.float64).repeat(shared, axis=0)
    points = offsets.shape[4]
    # Point p of a level has the reference point p mod G; all heads have the same.
    centres = np.tile(centres, (1, 1, 1, points // centres.shape[3], 1))[:, :, None]
    with np.errstate(
        invalid="ignore", divide="ignore", over="ignore"
    ):  # locations that are not finite; empty levels
        if centres.shape[-1] == 2:
            sizes = inputs["spatial_shapes"][:, None, ::-1]  # (width, height)
            locations = centres + offsets / sizes
        else:
            locations = centres[..., :2] + offsets / points * centres[..., 2:] * 0.5
        weights = np.exp(logits - logits.max(axis=(-2, -1), keepdims=True, initial=-np.inf))
        weights /= weights.sum(axis=(-2, -1), keepdims=True)
        indexed = {name: inputs[name] for name in ("value", "spatial_shapes", "level_start_index")}
        return FROM_LOCATIONS.reference(
            {}, {**indexed, "sampling_locations": locations, "attention_weights": weights}
        )


def _torch_reference(_fields: Fields, inputs: Any) -> tuple[Any, ...]:
    """The computation of the modules of Deformable DETR and mmcv around their operator."""
    value, offsets, logits = inputs["value"], inputs["sampling_offsets"], inputs["attention_logits"]
    shared = value.shape[0] // max(offsets.shape[0], 1)
    offsets, logits = offsets.repeat_interleave(shared, 0), logits.repeat_interleave(shared, 0)
    centres = inputs["reference_points"]
    points = offsets.shape[4]
    centres = centres.repeat(1, 1, 1, points // centres.shape[3], 1)[:, :, None]
    if centres.shape[-1] == 2:
        sizes = [(width, height) for height, width in inputs["spatial_shapes"].tolist()]
        locations = centres + offsets / offsets.new_tensor(sizes).reshape(-1, 1, 2)
    else:
        locations = centres[..., :2] + offsets / points * centres[..., 2:] * 0.5
    weights = logits.flatten(-2).softmax(-1).reshape(logits.shape)
    assert FROM_LOCATIONS.torch_reference is not None
    return FROM_LOCATIONS.torch_reference(
        {},
        {
            "value": value,
            "spatial_shapes": inputs["spatial_shapes"],
            "level_start_index": inputs["level_start_index"],
            "sampling_locations": locations.to(value.dtype),
            "attention_weights": weights,
        },
    )


MULTISCALE_DEFORMABLE_ATTENTION_FROM_OFFSETS = OpDef(
    name="MultiscaleDeformableAttentionFromOffsets",
    doc=(
        "Multi-scale deformable attention from reference points, offsets and logits. Softmax goes over all levels and "
        "points of a head. pixel = reference * size - 0.5 + offset for points (x, y); "
        "centre * size - 0.5 + offset / P * extent * size / 2 for boxes (cx, cy, w, h). "
        "Samples outside a level are zero."
    ),
    inputs=(
        Port("value", "T", 4, "[N, S, M, D] features of all levels, row by row"),
        Port("spatial_shapes", "I", 2, "[L, 2] (height, width) of each level", meaning=Meaning.LEVEL_SIZES),
        Port("level_start_index", "I", 1, "[L] first row of each level in S", meaning=Meaning.LEVEL_STARTS),
        Port(
            "reference_points",
            "F",
            5,
            "[1 or N, Lq, 1 or L, G, 2 or 4] points (x, y) or boxes (cx, cy, w, h), 0 to 1 across the image; point p of "
            "a level has number p mod G",
            positions=True,
            meaning=Meaning.SHARE,
        ),
        # No positions: from its reference point a sample is a few pixels away, for which a reduced precision has the digits.
        Port(
            "sampling_offsets",
            "T",
            6,
            "[N / K, Lq, M, L, P, 2] (x, y), in pixels of the level, or in P-ths of half a box; K entries of the batch in "
            "a row share them",
        ),
        Port("attention_logits", "T", 5, "[N / K, Lq, M, L, P], before the softmax; shared as the offsets"),
    ),
    outputs=(Port("output", "T", 3, "[N, Lq, M*D]"),),
    fields=(),
    shape=_shape,
    check=_check,
    reference=_reference,
    torch_reference=_torch_reference,
    expand=expand_from_offsets,
    chain="attention-from-offsets",
    aliases=OFFSET_ALIASES,
    cases=CASES,
    tolerance={"float32": 2e-6, "float16": 2e-3, "bfloat16": 1.6e-2},
    huge=HUGE_OF_OFFSETS,
    benchmarks=BENCHMARKS,
    work=work,
)
