"""Multi-scale deformable attention from reference points, sampling offsets and logits.

Zhu et al., Deformable DETR, arXiv 2010.04159: equation 3, and appendix A.4 for boxes. Locations and softmaxed weights, two
of the largest tensors of a detector's encoder, are never written.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from trtsmith.importers.generation import Meaning
from trtsmith.importers.opdef import Arrays, Case, Fields, OpDef, Port, Shapes, Work
from trtsmith.importers.ops._multiscale_deformable_attention import (
    CAMERA,
    CHANNELS,
    DETECTOR,
    HEADS,
    LOCAL_PIXELS,
    OFFSET_ALIASES,
    Levels,
    expand_from_offsets,
    grid,
    pixels,
    stored,
)
from trtsmith.importers.ops._shared import STRANGE, put_every, size_faults, size_of
from trtsmith.importers.ops.multiscale_deformable_attention import (
    MULTISCALE_DEFORMABLE_ATTENTION as FROM_LOCATIONS,
)


def work(_fields: Fields, shapes: Shapes) -> Work:
    """Counts the work as with locations, plus four operations for a sample's pixel and four for its softmax."""
    samples = math.prod(shapes["attention_logits"])
    return Work(flops=samples * (8 * shapes["value"][3] + 24))


def _references(rng: np.random.Generator, batch: int, queries: int, levels: int, options: Any) -> np.ndarray:
    """Points, or boxes of up to half the image; one batch or level unless `each` has "batch" or "level"."""
    each = options.get("each", ("batch",))
    shape = (
        batch if "batch" in each else 1,
        queries,
        levels if "level" in each else 1,
        options.get("groups", 1),
    )
    spread = options.get("spread", 0.1)
    points = rng.uniform(-spread, 1 + spread, (*shape, 2))
    if options.get("boxes"):
        return np.concatenate([points, rng.uniform(0.02, 0.5, (*shape, 2))], axis=-1)
    return points


def _logits(rng: np.random.Generator, shape: tuple[int, ...], options: Any) -> np.ndarray:
    """`masked`: half of them are -inf, and all of the first levels of some queries. `steep`: far from zero and apart."""
    logits = rng.normal(size=shape)
    if options.get("steep"):
        logits = 60 * logits - 200
    if options.get("masked"):
        logits[rng.random(shape) < 0.5] = -np.inf
        logits[:, ::3, :, :-1] = -np.inf
        logits[..., -1, 0] = 0.5
    return logits


def _inputs(
    batch: int, heads: int, channels: int, queries: int, points: int, levels: Levels, **options: Any
) -> Any:
    """A generator of inputs. Beside the options of the parts: `order` stores levels in another order, `strange` has
    non-finite and huge offsets and references; `shared_by` entries of the batch have the same offsets.

    `unread` makes the last pixel of each level, 5 x 6 at least, NaN or infinite, and has no position near it: some lie
    beyond it, where a kernel that moves samples onto the level reads it nevertheless.
    """

    def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
        starts, count = stored(levels, options.get("order", range(len(levels))))
        shape = (batch // options.get("shared_by", 1), queries, heads, len(levels), points)
        references = _references(rng, batch, queries, len(levels), options)
        offsets = rng.normal(scale=options.get("deviation", LOCAL_PIXELS), size=(*shape, 2))
        if options.get("strange"):
            put_every(7, offsets, (*STRANGE, 1e9))
            put_every(5, references, (*STRANGE, 1e9))
        value = rng.normal(size=(batch, count + options.get("spare", 0), heads, channels))
        if options.get("unread"):
            references = rng.uniform(0, 0.5, references.shape)
            offsets = rng.uniform(-0.4, 0.4, offsets.shape)
            offsets.reshape(-1, 2)[::5] += 1000
            for level, (height, width) in enumerate(levels):
                value[:, starts[level] + height * width - 1] = np.nan if level % 2 == 0 else np.inf
        return {
            "value": value,
            "spatial_shapes": np.array(levels, np.int64).reshape(len(levels), 2),
            "level_start_index": starts,
            "reference_points": references,
            "sampling_offsets": offsets,
            "attention_logits": _logits(rng, shape, options),
        }

    return make


_TWO: Levels = ((6, 5), (3, 4))
_THREE: Levels = ((6, 5), (3, 4), (2, 2))
_FOUR: Levels = ((7, 9), (4, 5), (2, 3), (2, 2))
_FIVE: Levels = ((7, 9), (4, 5), (3, 3), (2, 3), (2, 2))
_EACH = ("batch", "level")


def _case(name: str, *sizes: Any, large: bool = False, **options: Any) -> Case:
    return Case(name, {}, _inputs(*sizes, **options), large)


CASES = (
    _case("one_of_each", 1, 1, 1, 1, 1, ((1, 1),), spread=0, deviation=0.1),
    _case("odd", 2, 3, 5, 7, 3, ((5, 3), (2, 7), (1, 1))),
    _case("two_levels", 2, 8, 32, 33, 4, ((13, 17), (7, 9))),
    _case("shared_by_batches", 2, 2, 8, 9, 4, _TWO, each=()),
    _case("shared_by_batches_of_each_level", 2, 2, 8, 9, 4, _TWO, each=("level",), groups=2),
    _case("of_each_level", 2, 3, 5, 9, 3, _THREE, each=_EACH),
    _case("four_references", 2, 3, 6, 9, 8, _TWO, groups=4),
    _case("boxes", 2, 3, 5, 9, 3, _THREE, boxes=True),
    _case("boxes_of_each_level", 2, 2, 8, 9, 4, _THREE, boxes=True, each=_EACH, groups=2),
    _case("levels_out_of_order", 1, 2, 8, 19, 4, _THREE, order=(2, 0, 1), spare=3),
    _case("offsets_shared_by_three", 6, 2, 5, 9, 4, _TWO, shared_by=3),
    _case("far_outside", 1, 2, 8, 50, 4, _TWO, spread=3.0),
    _case("nan_and_huge_positions", 1, 2, 8, 50, 4, _TWO, strange=True),
    _case("nan_and_huge_boxes", 1, 2, 8, 50, 4, _TWO, strange=True, boxes=True),
    _case("masked", 2, 2, 8, 9, 4, _TWO, masked=True),
    _case("steep", 2, 2, 8, 9, 4, _TWO, steep=True),
    _case("no_queries", 2, 2, 8, 0, 4, ((6, 5),)),
    _case("no_batch", 0, 2, 8, 5, 4, ((6, 5),)),
    _case("no_points", 1, 2, 8, 5, 0, ((6, 5),)),
    _case("empty_level", 1, 2, 8, 5, 2, ((6, 5), (0, 4))),
    # Rows of 16, 32 and 64 channels have a kernel of their own: what is awkward has to reach that one too. So have 16
    # samples of a head, and 8 heads of 32 channels.
    _case("rows_16", 1, 4, 16, 65, 4, ((9, 11), (5, 6))),
    _case("rows_64_boxes", 1, 2, 64, 31, 8, ((9, 11), (5, 6)), boxes=True),
    _case("channels_36", 1, 2, 36, 31, 2, ((9, 11),)),
    _case("rows_32_sixteen_samples", 2, 8, 32, 41, 4, _FOUR, spread=0.5),
    _case("rows_32_sixteen_samples_boxes", 2, 8, 32, 41, 4, _FOUR, each=_EACH, boxes=True),
    _case("rows_32_sixteen_masked", 2, 8, 32, 41, 4, _FOUR, each=(), masked=True),
    _case("rows_32_sixteen_strange", 2, 8, 32, 41, 4, _FOUR, each=_EACH, strange=True),
    _case("rows_32_sixteen_shared_by_three", 6, 8, 32, 41, 4, _FOUR, shared_by=3),
    _case("rows_32_shared_masked", 4, 2, 32, 19, 4, _THREE, shared_by=2, masked=True, strange=True),
    _case("rows_32_one_head", 2, 1, 32, 41, 4, _FOUR, each=("level",)),
    _case("rows_32_narrow_levels", 2, 8, 32, 41, 4, ((7, 1), (1, 5), (1, 1), (3, 3))),
    _case(
        "rows_32_narrow_levels_boxes",
        2,
        8,
        32,
        41,
        4,
        ((7, 1), (1, 5), (1, 1), (3, 3)),
        boxes=True,
        masked=True,
    ),
    _case("rows_32_twelve_samples", 2, 3, 32, 19, 4, _THREE, order=(2, 0, 1), spare=3),
    _case("rows_32_twenty_samples_masked", 2, 3, 32, 41, 4, _FIVE, each=_EACH, masked=True),
    _case("rows_32_twenty_samples_boxes", 2, 3, 32, 41, 4, _FIVE, each=_EACH, boxes=True),
    _case("rows_32_four_references", 2, 8, 32, 41, 8, _FOUR, groups=4, spread=0.5),
    _case("rows_32_thirty_two_steep", 2, 8, 32, 41, 8, _FOUR, each=_EACH, groups=2, steep=True),
    _case("rows_32_thirty_two_masked", 2, 8, 32, 41, 8, _FOUR, masked=True),
    _case("rows_32_130_samples", 1, 2, 32, 9, 65, _TWO, groups=5),
    _case("rows_32_far_outside", 1, 2, 32, 50, 4, _TWO, spread=3.0),
    _case("rows_32_strange", 2, 8, 32, 33, 4, _TWO, strange=True, boxes=True),
    _case("rows_32_not_finite_unread", 2, 8, 32, 41, 8, ((6, 5), (5, 7)), unread=True),
    _case("rows_32_empty_level", 1, 2, 32, 5, 3, ((6, 5), (0, 4))),
    _case("no_batch_rows_32", 0, 2, 32, 5, 4, ((6, 5),), each=()),
    _case("no_points_rows_32", 1, 2, 32, 5, 0, ((6, 5),)),
    _case("detector_encoder", 1, 8, 32, 22223, 4, DETECTOR, each=("level",), large=True),
    _case("detector_decoder", 4, 8, 32, 300, 4, DETECTOR, each=_EACH, boxes=True, large=True),
)


def _benchmark(
    name: str,
    levels: Levels,
    batch: int,
    points: int,
    centres: np.ndarray,
    random: bool = False,
    per_level: bool = True,
    shared_by: int = 1,
) -> Case:
    """centres: [Lq, G, 2 or 4], the same in all batches. random: samples are uniform over the image, else local. shared_by:
    entries of the batch that have the same offsets."""

    def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
        areas = [height * width for height, width in levels]
        queries, groups = centres.shape[:2]
        shape = (batch // shared_by, queries, HEADS, len(levels), points)
        references = np.broadcast_to(
            centres[None, :, None], (batch, queries, len(levels) if per_level else 1, *centres.shape[1:])
        )
        if random:
            sizes = np.array([(width, height) for height, width in levels], np.float64)[:, None]
            offsets = rng.random((*shape, 2))
            offsets -= np.tile(centres, (1, points // groups, 1))[None, :, None, None, :, :2]
            offsets *= sizes
        else:
            offsets = LOCAL_PIXELS * rng.standard_normal((*shape, 2))
        return {
            "value": rng.standard_normal((batch, sum(areas), HEADS, CHANNELS)),
            "spatial_shapes": np.array(levels, np.int64),
            "level_start_index": np.cumsum([0, *areas[:-1]], dtype=np.int64),
            "reference_points": np.ascontiguousarray(references),
            "sampling_offsets": offsets,
            "attention_logits": rng.standard_normal(shape),
        }

    return Case(name, {}, make, large=True)


def _boxes(queries: int) -> np.ndarray:
    """[queries, 1, 4]: boxes spread over the image, of 5 to 30 % of its sides."""
    rng = np.random.default_rng(5)
    return np.concatenate([rng.random((queries, 1, 2)), rng.uniform(0.05, 0.3, (queries, 1, 2))], axis=-1)


_PILLAR = grid(100, 100)[:, None] + np.linspace(-0.02, 0.02, 4)[None, :, None] * (0.0, 1.0)
"""Four points of a pillar above each cell of a plane, as a camera sees them: one above the other."""

BENCHMARKS = (
    # Deformable DETR on an 800x1333 image, as the operator that is given locations has it.
    _benchmark("detr_encoder", DETECTOR, 1, 4, pixels(DETECTOR)[:, None], random=True),
    _benchmark("detr_encoder_local", DETECTOR, 1, 4, pixels(DETECTOR)[:, None]),
    _benchmark("detr_encoder_batch_4_local", DETECTOR, 4, 4, pixels(DETECTOR)[:, None]),
    _benchmark("dino_decoder", DETECTOR, 1, 4, _boxes(900)),
    # BEVFormer's spatial cross-attention: six cameras as batch, 10,000 queries, 8 points around 4 of a pillar; the offsets
    # are the same for all cameras.
    _benchmark("bevformer_cross_local", CAMERA, 6, 8, _PILLAR, per_level=False, shared_by=6),
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
    size = partial(size_of, shapes)
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
    faults += size_faults(shapes, ("spatial_shapes", 1, 2), ("sampling_offsets", 5, 2))
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
    # Locations that are not finite; empty levels.
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
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
    benchmarks=BENCHMARKS,
    work=work,
)
