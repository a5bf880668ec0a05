"""Rulebook and convolution together equal a dense convolution on a grid with zeros in empty cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from trtsmith.importers.lowering import ForeignNode, lower
from trtsmith.importers.opdef import Refusal
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


AUTOWARE = {
    "batch_size": 2,
    "spatial_shape": list(GRID[1:]),
    "ksize": [3, 3, 3],
    "stride": [2, 2, 2],
    "padding": [1, 1, 1],
    "dilation": [1, 1, 1],
    "out_padding": [0, 0, 0],
    "transpose": 0,
}


@pytest.mark.parametrize(
    ("op_type", "changed", "reason"),
    [
        ("GetIndicePairsImplicitGemm", {"subm": 1, "algo": 2}, "algo = 2"),
        ("GetIndicePairsImplicitGemm", {"subm": 2, "algo": 1}, "subm = 2"),
        ("GetIndicePairsImplicitGemm", {"subm": 0, "algo": 1, "transpose": 1}, "transpose = 1"),
        ("GetIndicePairsImplicitGemm", {"subm": 1, "algo": 1, "ksize": [3, 2, 3]}, "ksize = [3, 2, 3]"),
        ("GetIndicePairs", {"subm": 0, "algo": 0}, "subm = 0"),
        ("GetIndicePairs", {"subm": 1, "algo": 1}, "algo = 1"),
        ("ImplicitGemm", {"act_type": 4}, "act_type = 4"),
        ("ImplicitGemm", {"act_type": 1, "act_alpha": 0.5}, "act_alpha = 0.5"),
        ("ImplicitGemm", {"act_beta": 0.5}, "act_beta = 0.5"),
        ("ImplicitGemm", {"output_scale": 0.5}, "output_scale = 0.5"),
        ("ImplicitGemm", {"output_add_scale": 0.5}, "output_add_scale = 0.5"),
    ],
)
def test_nodes_that_are_not_computed_are_refused(op_type: str, changed: dict[str, Any], reason: str) -> None:
    names = ("f", "w", "p", "m", "s") if op_type == "ImplicitGemm" else ("i",)
    attributes = changed if op_type == "ImplicitGemm" else AUTOWARE | changed
    outputs = {"GetIndicePairsImplicitGemm": 5, "GetIndicePairs": 4, "ImplicitGemm": 1}[op_type]
    node = ForeignNode("n", op_type, "autoware", attributes, names, tuple(f"o{i}" for i in range(outputs)))
    refusal = lower(node, 1)
    assert isinstance(refusal, Refusal)
    assert refusal.reason.startswith(reason)
    assert refusal.expected and refusal.fix
