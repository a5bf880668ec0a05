"""Makes PyTorch round every factor of a float32 product to TF32.

With TF32 allowed, cuDNN and cuBLAS still compute what is small in float32, and choose by shape; TensorRT does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

PRODUCTS: frozenset[Callable[..., Any]] = frozenset(
    {
        *(F.conv1d, F.conv2d, F.conv3d, F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d, F.linear),
        *(torch.matmul, torch.mm, torch.bmm, torch.baddbmm, torch.addmm, torch.einsum),
        *(Tensor.matmul, Tensor.mm, Tensor.bmm, Tensor.__matmul__),
    }
)  # fmt: skip

_DROPPED = 24 - 11
"""Digits of float32's significand that TF32 has not."""


def to_tf32(x: Tensor) -> Tensor:
    """float32 rounded to 11 digits, to nearest, ties to even; what is not finite, or of another type, as it is."""
    if x.dtype != torch.float32:
        return x
    bits = x.contiguous().view(torch.int32)
    half = (1 << (_DROPPED - 1)) - 1
    rounded = ((bits + half + ((bits >> _DROPPED) & 1)) >> _DROPPED) << _DROPPED
    return torch.where(torch.isfinite(x), rounded.view(torch.float32), x)


class RoundedProducts(TorchFunctionMode):
    """Within it, the factors of PRODUCTS are rounded; biases and addends are not."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func in PRODUCTS:
            factors = (
                slice(1, 3)
                if func in (torch.baddbmm, torch.addmm)
                else slice(0, None if func is torch.einsum else 2)
            )
            given = list(args)
            given[factors] = [to_tf32(x) if isinstance(x, Tensor) else x for x in given[factors]]
            args = given
        return func(*args, **(kwargs or {}))
