"""Makes PyTorch's float16 products have the error of sums in float16, as TensorRT-RTX forms them.

The sums are formed in float32, of factors that are float16; in which type a kernel of PyTorch's for float16 sums, and in
which order, depends on the CPU. The error is the noise that conversions emulate it by, with the same measured size
(converter/rewrite/precision/sum_noise.py): networks whose engines are held to it show whether that is right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil, prod
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from gpucheck.rounded_products import PRODUCTS
from trtsmith.converter.rewrite.precision.sum_noise import noise_of

FP16_SUMS = "fp16-sums"

_CONV = (F.conv1d, F.conv2d, F.conv3d)
_CONV_TRANSPOSE = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)
_BEHIND_AN_ADDEND = (torch.addmm, torch.baddbmm)


class Float16Sums(TorchFunctionMode):
    """Within it, PRODUCTS in float16 are summed in float32, and have noise; the same every time that the mode is entered."""

    def __init__(self) -> None:
        super().__init__()
        self._generators: dict[torch.device, torch.Generator] = {}

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func not in PRODUCTS or not any(map(_is_half, tree_leaves((args, kwargs)))):
            return func(*args, **(kwargs or {}))
        args, kwargs = tree_map(_widened, (args, kwargs or {}))
        wide = func(*args, **kwargs)
        scale, device = noise_of(products(func, args, kwargs)), wide.device
        if not scale:
            return wide.half()
        if device not in self._generators:
            self._generators[device] = torch.Generator(device).manual_seed(0)
        channel = 1 if func in (*_CONV, *_CONV_TRANSPOSE) else wide.dim() - 1
        others = [axis for axis in range(wide.dim()) if axis != channel]
        size = wide.square().mean(others, keepdim=True).sqrt() if others else wide.square().mean().sqrt()
        noise = torch.randn(wide.shape, generator=self._generators[device], device=device)
        return (wide + noise * size * scale).half()


def _is_half(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and leaf.dtype == torch.float16


def _widened(leaf: Any) -> Any:
    return leaf.float() if _is_half(leaf) else leaf


def products(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
    """How many products one value of the result sums."""
    if func in _CONV:
        return prod(_weight(args, kwargs).shape[1:])
    if func in _CONV_TRANSPOSE:
        weight = _weight(args, kwargs)
        stride = kwargs.get("stride", args[3] if len(args) > 3 else 1)
        groups = kwargs.get("groups", args[6] if len(args) > 6 else 1)
        kernel = weight.shape[2:]
        strides = [stride] * len(kernel) if isinstance(stride, int) else stride
        taps: int = prod(ceil(k / s) for k, s in zip(kernel, strides, strict=True))
        return int(weight.shape[0]) // int(groups) * taps
    if func is torch.einsum:
        return _einsum(args)
    first: Tensor = args[1 if func in _BEHIND_AN_ADDEND else 0]
    return int(first.shape[-1])


def _weight(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor:
    weight: Tensor = args[1] if len(args) > 1 else kwargs["weight"]
    return weight


def _einsum(args: Sequence[Any]) -> int:
    """The sizes of the letters that the result has not; those of "..." it has."""
    factors, _, result = args[0].replace(" ", "").partition("->")
    operands = args[1] if isinstance(args[1], (list, tuple)) else args[1:]
    sizes: dict[str, int] = {}
    for letters, operand in zip(factors.split(","), operands, strict=True):
        first, _, last = letters.partition("...")
        sizes.update(zip(first, operand.shape, strict=False))
        sizes.update(zip(last[::-1], reversed(operand.shape), strict=False))
    count: int = prod(size for letter, size in sizes.items() if letter not in result)
    return count
