"""Makes what the operators' cases of more than 2^31 elements share."""

from __future__ import annotations

from typing import Any

import numpy as np

SAMPLED = 64
"""Rows that are checked in each place."""


def numbers(tensor: Any) -> np.ndarray:
    """A PyTorch tensor in float64, on the CPU."""
    array: np.ndarray = tensor.double().cpu().numpy()
    return array
