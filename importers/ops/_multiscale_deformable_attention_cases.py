"""Makes test inputs of multi-scale deformable attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from trtsmith.importers.opdef import Case
from trtsmith.importers.ops._multiscale_deformable_attention_sizes import DETECTOR


def _inputs(
    batch: int,
    heads: int,
    channels: int,
    queries: int,
    points: int,
    levels: tuple[tuple[int, int], ...],
    **options: Any,
) -> Any:
    """A generator of inputs: `order` stores levels in another order, `spread` puts locations outside [0, 1].

    `unread` makes the last pixel of each level, 4 x 4 at least, NaN or infinite, and has no location near it: some lie
    beyond it, where a kernel that moves samples onto the level reads it nevertheless.
    """

    def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
        sizes = [h * w for h, w in levels]
        starts = np.zeros(len(levels), np.int64)
        position = 0
        for level in options.get("order", range(len(levels))):
            starts[level] = position
            position += sizes[level]
        shape = (batch, queries, heads, len(levels), points)
        spread = options.get("spread", 0.2)
        locations = rng.uniform(-spread, 1 + spread, (*shape, 2))
        if options.get("strange"):
            flat = locations.reshape(-1)
            flat[::7] = np.resize([np.nan, np.inf, -np.inf, 1e30, -1e30, 1e9], flat[::7].shape)
        weights = np.exp(rng.normal(size=shape))
        weights /= np.maximum(weights.sum(axis=(-1, -2), keepdims=True), 1e-12)
        value = rng.normal(size=(batch, position + options.get("spare", 0), heads, channels))
        if options.get("unread"):
            locations *= 0.5
            locations.reshape(-1, 2)[::5] = 1.3
            for level, start in enumerate(starts):
                value[:, start + sizes[level] - 1] = np.nan if level % 2 == 0 else np.inf
        return {
            "value": value,
            "spatial_shapes": np.array(levels, np.int64).reshape(len(levels), 2),
            "level_start_index": starts,
            "sampling_locations": locations,
            "attention_weights": weights,
        }

    return make


CASES = (
    Case("one_of_each", {}, _inputs(1, 1, 1, 1, 1, ((1, 1),))),
    Case("odd", {}, _inputs(2, 3, 5, 7, 3, ((5, 3), (2, 7), (1, 1)))),
    Case("two_levels", {}, _inputs(2, 8, 32, 33, 4, ((13, 17), (7, 9)))),
    Case("channels_16", {}, _inputs(1, 4, 16, 65, 4, ((9, 11), (5, 6)))),
    Case("channels_64", {}, _inputs(1, 2, 64, 31, 8, ((9, 11), (5, 6)))),
    Case("channels_36", {}, _inputs(1, 2, 36, 31, 2, ((9, 11),))),
    Case(
        "levels_out_of_order", {}, _inputs(1, 2, 8, 19, 4, ((6, 5), (3, 4), (2, 2)), order=(2, 0, 1), spare=3)
    ),
    Case("far_outside", {}, _inputs(1, 2, 8, 50, 4, ((6, 5), (3, 4)), spread=3.0)),
    Case("nan_and_huge_locations", {}, _inputs(1, 2, 8, 50, 4, ((6, 5), (3, 4)), strange=True)),
    Case("no_queries", {}, _inputs(2, 2, 8, 0, 4, ((6, 5),))),
    Case("no_batch", {}, _inputs(0, 2, 8, 5, 4, ((6, 5),))),
    Case("no_points", {}, _inputs(1, 2, 8, 5, 0, ((6, 5),))),
    Case("empty_level", {}, _inputs(1, 2, 8, 5, 2, ((6, 5), (0, 4)))),
    # Rows of 32 channels, which have a kernel of their own: what is awkward has to reach that one too.
    Case(
        "rows_32_out_of_order",
        {},
        _inputs(2, 3, 32, 19, 4, ((6, 5), (3, 4), (2, 2)), order=(2, 0, 1), spare=3),
    ),
    Case("rows_32_far_outside", {}, _inputs(1, 2, 32, 50, 4, ((6, 5), (3, 4)), spread=3.0)),
    Case("rows_32_nan_and_huge_locations", {}, _inputs(2, 8, 32, 33, 4, ((6, 5), (3, 4)), strange=True)),
    # 16 samples have a kernel of their own too, and so have 8 heads of 32 channels.
    Case(
        "rows_32_sixteen_samples", {}, _inputs(2, 8, 32, 41, 4, ((7, 9), (4, 5), (2, 3), (2, 2)), spread=0.5)
    ),
    Case("rows_32_one_head", {}, _inputs(2, 1, 32, 41, 4, ((7, 9), (4, 5), (2, 3), (2, 2)), spread=0.5)),
    Case("rows_32_narrow_levels", {}, _inputs(2, 8, 32, 41, 4, ((7, 1), (1, 5), (1, 1), (3, 3)), spread=0.5)),
    Case("rows_32_24_samples", {}, _inputs(2, 3, 32, 41, 8, ((5, 6), (4, 4), (3, 3)), spread=0.5)),
    Case("rows_32_130_samples", {}, _inputs(1, 2, 32, 9, 65, ((5, 6), (3, 4)), spread=0.5)),
    Case("rows_32_not_finite_unread", {}, _inputs(2, 8, 32, 41, 8, ((6, 5), (4, 7)), unread=True)),
    Case("no_batch_rows_32", {}, _inputs(0, 2, 32, 5, 4, ((6, 5),))),
    Case("no_points_rows_32", {}, _inputs(1, 2, 32, 5, 0, ((6, 5),))),
    Case("rows_32_empty_level", {}, _inputs(1, 2, 32, 5, 3, ((6, 5), (0, 4)))),
    Case("detector_encoder", {}, _inputs(1, 8, 32, 22223, 4, DETECTOR), large=True),
    Case("detector_decoder", {}, _inputs(4, 8, 32, 300, 4, DETECTOR), large=True),
)
