"""Computes plugins in float64 with the PyTorch functions that define them, as oracles of the examples."""

from __future__ import annotations

from typing import Any

import numpy as np


def by_torch(function: str, *arrays: Any, **options: Any) -> np.ndarray:
    """The result of a function of torch.nn.functional."""
    import torch

    def tensor(given: Any) -> Any:
        return torch.from_numpy(given.astype(np.float64)) if isinstance(given, np.ndarray) else given

    named = {name: tensor(given) for name, given in options.items()}
    result: np.ndarray = getattr(torch.nn.functional, function)(*map(tensor, arrays), **named).numpy()
    return result


def sampled(
    images: np.ndarray, grid: np.ndarray, mode: str, padding: str = "zeros", aligned: bool = False
) -> np.ndarray:
    """images [N, C, H, W] at grid [N, h, w, 2] of (x, y) from -1 to 1, or volumes at (x, y, z)."""
    options = {"mode": mode, "padding_mode": padding, "align_corners": aligned}
    return by_torch("grid_sample", images, grid, **options)
