"""Writes the content-aware reassembly of features in standard ONNX operators of opset 11."""

from __future__ import annotations

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.opdef import Expansion


def expand_feature_reassembly(expansion: Expansion) -> Value:
    """Adds the map, moved by each tap, times the masks of the tap."""
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
