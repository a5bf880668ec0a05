"""Rulebook and convolution together compute what a dense convolution does on a grid with zeros in the other cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from trtsmith.importers.registry import by_name

GRID = (2, 6, 7, 8)


def cells(rng: np.random.Generator) -> np.ndarray:
    chosen = rng.permutation(int(np.prod(GRID)))[:60]
    return np.stack(np.unravel_index(chosen, GRID), axis=1).astype(np.int32)


def dense(indices: np.ndarray, features: np.ndarray) -> torch.Tensor:
    """[N, C, D, H, W]"""
    grid = np.zeros((*GRID, features.shape[1]))
    grid[tuple(indices.T)] = features
    return torch.from_numpy(np.moveaxis(grid, -1, 1))


def convolve(indices: np.ndarray, pairs: np.ndarray, kernel: tuple[int, ...], **options: Any) -> Any:
    """(rows of the sparse convolution, the dense one's output [N, D, H, W, O])"""
    rng = np.random.default_rng(3)
    features, bias = rng.normal(size=(len(indices), 5)), rng.normal(size=4)
    weights = rng.normal(size=(4, *kernel, 5))
    inputs = {"features": features, "weights": weights, "pairs": pairs, "bias": bias}
    fields = {"activation": 0, "slope": 0.0}
    sparse = by_name()["RulebookConvolution"].reference(fields, inputs)["output"]
    filters = torch.from_numpy(np.moveaxis(weights, -1, 1).copy())
    full = torch.nn.functional.conv3d(dense(indices, features), filters, torch.from_numpy(bias), **options)
    return sparse, np.moveaxis(full.numpy(), 1, -1)


@pytest.mark.parametrize(("kernel", "dilation"), [((3, 3, 3), (1, 1, 1)), ((1, 3, 5), (1, 2, 1))])
def test_submanifold_is_a_dense_convolution_at_the_same_cells(
    kernel: tuple[int, ...], dilation: tuple[int, ...]
) -> None:
    indices = cells(np.random.default_rng(1))
    fields = {"batch_size": 2, "spatial_shape": GRID[1:], "kernel_size": kernel, "dilation": dilation}
    pairs = by_name()["SubmanifoldRulebook"].reference(fields, {"indices": indices})["pairs"]
    padding = tuple(size // 2 * step for size, step in zip(kernel, dilation, strict=True))
    sparse, full = convolve(indices, pairs, kernel, padding=padding, dilation=dilation)
    np.testing.assert_allclose(sparse, full[tuple(indices.T)], atol=1e-12)


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "dilation"),
    [
        ((3, 3, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1)),
        ((3, 1, 1), (2, 1, 1), (0, 0, 0), (1, 1, 1)),
        ((2, 3, 2), (1, 2, 3), (0, 2, 1), (2, 1, 3)),
    ],
)
def test_strided_is_a_dense_convolution_and_the_bias_alone_elsewhere(
    kernel: tuple[int, ...], stride: tuple[int, ...], padding: tuple[int, ...], dilation: tuple[int, ...]
) -> None:
    indices = cells(np.random.default_rng(2))
    options = {"stride": stride, "padding": padding, "dilation": dilation}
    fields = {"batch_size": 2, "spatial_shape": GRID[1:], "kernel_size": kernel, "limit": 0, **options}
    made = by_name()["StridedRulebook"].reference(fields, {"indices": indices})
    sparse, full = convolve(indices, made["pairs"], kernel, **options)
    reached = np.zeros(full.shape[:-1], bool)
    reached[tuple(made["output_indices"].T)] = True
    np.testing.assert_allclose(sparse, full[tuple(made["output_indices"].T)], atol=1e-12)
    alone = full[~reached]
    np.testing.assert_allclose(alone, np.broadcast_to(alone[:1], alone.shape), atol=1e-12)
