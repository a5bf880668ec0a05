"""Lists sizes at which networks use multi-scale deformable attention, and counts what it has to compute."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from trtsmith.importers.opdef import Case, Fields, Shapes, Work

Levels = tuple[tuple[int, int], ...]

DETECTOR: Levels = ((100, 167), (50, 84), (25, 42), (13, 21))
"""Strides 8 to 64 of an 800x1333 image: 22,223 positions."""

CAMERA: Levels = ((116, 200), (58, 100), (29, 50), (15, 25))
"""Strides 8 to 64 of a 928x1600 image, as BEVFormer pads nuScenes' cameras: 30,825 positions."""

LOCAL_PIXELS = 2.0
"""Standard deviation of a local sample from its query's position, in pixels of its level."""

HEADS, CHANNELS = 8, 32


def pixels(levels: Levels) -> np.ndarray:
    """[S, 2]: the centre (x, y) of every position of every level, 0 to 1. An encoder's queries are these."""
    return np.concatenate([grid(height, width) for height, width in levels])


def grid(height: int, width: int) -> np.ndarray:
    """[height * width, 2]: centres (x, y), row by row, 0 to 1."""
    y, x = np.meshgrid((np.arange(height) + 0.5) / height, (np.arange(width) + 0.5) / width, indexing="ij")
    return np.stack([x.ravel(), y.ravel()], axis=1)


def work(_fields: Fields, shapes: Shapes) -> Work:
    """The work: for each sample four corners of D channels; and its position, fractions and shares, 16 operations."""
    samples = math.prod(shapes["attention_weights"])
    return Work(flops=samples * (8 * shapes["value"][3] + 16))


def _case(
    name: str,
    levels: Levels,
    batch: int,
    queries: int,
    points: int,
    near: Callable[[], np.ndarray] | None = None,
) -> Case:
    """near: positions [queries, 2] that the samples lie around; None: samples uniform over the image."""

    def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
        areas = [height * width for height, width in levels]
        shape = (batch, queries, HEADS, len(levels), points)
        if near is None:
            locations = rng.random((*shape, 2))
        else:
            sizes = np.array([(width, height) for height, width in levels], np.float64)[:, None]
            locations = rng.standard_normal((*shape, 2))
            locations *= LOCAL_PIXELS / sizes
            locations += near()[:, None, None, None]
        weights = rng.random(shape)
        weights /= weights.sum(axis=(-1, -2), keepdims=True)
        return {
            "value": rng.standard_normal((batch, sum(areas), HEADS, CHANNELS)),
            "spatial_shapes": np.array(levels, np.int64),
            "level_start_index": np.cumsum([0, *areas[:-1]], dtype=np.int64),
            "sampling_locations": locations,
            "attention_weights": weights,
        }

    return Case(name, {}, make, large=True)


def _encoder(name: str, batch: int, near: Callable[[], np.ndarray] | None = None) -> Case:
    return _case(name, DETECTOR, batch, sum(height * width for height, width in DETECTOR), 4, near)


BENCHMARKS = (
    # Deformable DETR on an 800x1333 image; 80 MB in float32.
    _encoder("detr_encoder", 1),
    _encoder("detr_encoder_local", 1, lambda: pixels(DETECTOR)),
    _encoder("detr_encoder_batch_4", 4),
    _encoder("detr_encoder_batch_4_local", 4, lambda: pixels(DETECTOR)),
    _case("dino_decoder", DETECTOR, 1, 900, 4),
    # BEVFormer's spatial cross-attention: six cameras as batch, 10,000 queries a camera, 8 points; 435 MB in float32.
    _case("bevformer_cross", CAMERA, 6, 10_000, 8),
    _case("bevformer_cross_local", CAMERA, 6, 10_000, 8, lambda: grid(100, 100)),
)
