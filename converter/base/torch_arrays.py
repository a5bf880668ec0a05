"""Converts host arrays to PyTorch tensors and back, including bfloat16, which numpy lacks."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def to_torch(array: np.ndarray) -> Any:
    """Converts an array to a tensor on the CPU, with its own memory."""
    import torch

    array = np.ascontiguousarray(array).reshape(array.shape)
    if array.dtype == _BFLOAT16:
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


def from_torch(tensor: Any) -> np.ndarray:
    """Returns the tensor's values on the host."""
    import torch

    host = tensor.detach().cpu().contiguous()
    if host.dtype == torch.bfloat16:
        bits: np.ndarray = host.view(torch.int16).numpy()
        return bits.view(_BFLOAT16)
    found: np.ndarray = host.numpy()
    return found
