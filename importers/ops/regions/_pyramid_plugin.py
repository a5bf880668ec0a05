"""Rewrites PyramidROIAlign_TRT: its four maps become one batch, from which RoI align reads each region.

Source: NVIDIA/TensorRT, plugin/pyramidROIAlignPlugin/pyramidROIAlignPlugin.cpp and common/kernels/maskRCNNKernels.cu
(release 11.1). Regions are cut to the image, so that no sample is farther than half a pixel outside of its map, where both
take the edge as it is. Regions without an extent, which the plugin samples once, get the least one that their type has.
"""

from __future__ import annotations

import numpy as np

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.opdef import Alias, AliasedNode, Attr, Fields, Kind, Refusal, attrs
from trtsmith.importers.ops._shared import FLAG, value_refusal
from trtsmith.importers.ops.regions._region_geometry import AVERAGE, MOST_SAMPLES

_LEGACY, _PLAIN, _OUTPUT_HALF, _HALF = range(-1, 3)
"""Values of roi_coords_transform: corner to corner; no offsets; of samples alone; of samples and pixels."""

_MAPS = ("finest", "second", "third", "coarsest")

_LEGACY_SETTINGS = {
    "roi_coords_transform": _LEGACY,
    "roi_coords_plusone": 0,
    "roi_coords_swap": 1,
    "roi_coords_absolute": 0,
    "sampling_ratio": 1,
}
_LEGACY_SCALE = 224 / 2**0.5
"""Of an image of 1024 pixels each way, whatever the node says."""

_LEAST = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
"""Of a coordinate and one pixel: the least extent that can be told from none."""


def _settings(node: AliasedNode) -> dict[str, int]:
    return {**node.attrs, **(_LEGACY_SETTINGS if node.attrs["legacy"] else {})}


def _guard(node: AliasedNode) -> Refusal | None:
    flags = ("legacy", "roi_coords_absolute", "roi_coords_swap", "roi_coords_plusone")
    least = {"fpn_scale": 1, "pooled_size": 1, "sampling_ratio": 0}
    counts = {name: [value, MOST_SAMPLES] for name, value in least.items()}
    if (refusal := value_refusal(node, {**dict.fromkeys(flags, FLAG), **counts})) is not None:
        return refusal
    if min(node.attrs["image_size"]) < 1:
        return Refusal(f"image_size = {list(node.attrs['image_size'])}", "1 or more", "correct 'image_size'")
    given = _settings(node)
    transform, samples, bins = (given[n] for n in ("roi_coords_transform", "sampling_ratio", "pooled_size"))
    if transform not in (_LEGACY, _PLAIN, _OUTPUT_HALF, _HALF):
        return Refusal(
            f"roi_coords_transform = {transform}", "-1, 0, 1 or 2", "correct 'roi_coords_transform'"
        )
    if transform <= _PLAIN and not samples:
        return Refusal(
            f"roi_coords_transform = {transform} with sampling_ratio = 0",
            "a number of samples, or roi_coords_transform = 1 or 2",
            "set 'sampling_ratio' where the node is made",
        )
    if transform == _LEGACY and bins < 2:
        return Refusal(
            f"pooled_size = {bins}: its bins reach from corner to corner", "2 or more", "pool more bins"
        )
    return None


def _fields(node: AliasedNode) -> Fields:
    given = _settings(node)
    return {
        "output_height": given["pooled_size"],
        "output_width": given["pooled_size"],
        "spatial_scale": 1.0,
        "sampling_ratio": given["sampling_ratio"],
        "aligned": 1,
        "pooling": AVERAGE,
    }


def _shares(node: AliasedNode, g: Builder) -> tuple[Value, Value, Value]:
    """Low and high corners (x, y) of regions as shares of the image, [N, R, 2] each, and the level of each, [N, R]."""
    given = _settings(node)
    regions = g.Cast("regions", to="float32")
    one, other = (g.Slice(regions, [start], [start + 2], [2]) for start in (0, 2))
    image = np.array(node.attrs["image_size"][::-1], np.float32)
    most = image if given["roi_coords_absolute"] else np.ones(2, np.float32)
    cut = []
    for corner in (g.Min(one, other), g.Max(one, other)):
        ordered = g.Gather(corner, [1, 0], axis=2) if given["roi_coords_swap"] else corner
        cut.append(g.Max(g.Min(ordered, most), 0.0) / most)
    low, high = cut
    side = high - low + (1 / image if given["roi_coords_plusone"] else np.zeros(2, np.float32))
    area = g.Slice(side, [0], [1], [2]) * g.Slice(side, [1], [2], [2])
    scale, pixels = (_LEGACY_SCALE, 1024**2) if given["legacy"] else (given["fpn_scale"], image.prod())
    limits = (scale * scale / pixels / np.array([4, 1, 0.25])).astype(np.float32)
    above = g.Cast(area > limits, to="int64")  # [N, R, 3]
    level = g.Slice(above, [0], [1], [2]) + g.Slice(above, [1], [2], [2]) + g.Slice(above, [2], [3], [2])
    return low, high, g.Reshape(level, [0, -1])


def _one_batch(node: AliasedNode) -> dict[str, Value]:
    """Maps filled up to one size with their edges, level by level; regions in pixels of theirs."""
    g, given = node.builder(), _settings(node)
    low, high, level = _shares(node, g)
    sizes = [g.Shape(name)[2:4] for name in _MAPS]
    largest = g.Cast(g.Max(*(g.Cast(size, to="float32") for size in sizes)), to="int64")
    padded = [
        g.Pad(name, g.Concat([0] * 6, largest - size + [1, 1], axis=0), mode="edge")
        for name, size in zip(_MAPS, sizes, strict=True)
    ]
    table = g.Gather(g.Cast(g.Reshape(g.Concat(*sizes, axis=0), [4, 2]), to="float32"), [1, 0], axis=1)
    extent, bins = g.Gather(table, level, axis=0), given["pooled_size"]
    transform, samples = given["roi_coords_transform"], given["sampling_ratio"]
    if transform == _LEGACY:
        extent, spans = extent - 1.0, bins - 1
    else:
        spans = bins
    first, last = low * extent, high * extent
    if transform == _OUTPUT_HALF:
        first, last = first + 0.5, last + 0.5
    elif transform != _HALF:
        step = (last - first) / float(spans)
        first = first + 0.5 + step * (-0.5 / samples)
        last = first + step * float(bins)
    dtype = node.dtypes.get("regions", "")
    dtype = dtype if dtype in _LEAST else "float32"
    if not samples:
        last = g.Max(last, first + (first + 1.0) * _LEAST[dtype])
    batch = g.Shape("regions")[:1]
    image = g.Cast(level * batch + g.Reshape(g.arange(batch), [-1, 1]), to="float32")
    rois = g.Reshape(g.Concat(g.Reshape(image, [batch, -1, 1]), first, last, axis=2), [-1, 5])
    return {"x": g.Concat(*padded, axis=0), "rois": g.Cast(rois, to=dtype)}


def _by_image(node: AliasedNode) -> dict[str, Value]:
    g = node.builder()
    return {"pooled": g.Reshape("output", [g.Shape("regions")[:2], g.Shape("output")[1:4]])}


PYRAMID_PLUGIN = Alias(
    op_type="PyramidROIAlign_TRT",
    domains=("TRT", "trt"),
    inputs=("regions", *_MAPS),
    attributes=(
        *attrs(fpn_scale=224, pooled_size=7),
        Attr("image_size", Kind.INTS, (1024, 1024), lengths=(2,)),
        *attrs(roi_coords_absolute=1, roi_coords_swap=0, roi_coords_plusone=0),
        Attr("roi_coords_transform", Kind.INT, _HALF),
        *attrs(sampling_ratio=0, legacy=0),
    ),
    outputs=("pooled",),
    guard=_guard,
    fields=_fields,
    prologue=_one_batch,
    epilogue=_by_image,
    source="NVIDIA TensorRT OSS, pyramidROIAlignPlugin; its sample of Detectron 2",
)
