"""PyTorch's half precision as on GPUs: values stored in the type, operators computed in float32.

What a kernel for a CPU sums in which type, and in which order, depends on the CPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from trtsmith.importers import torch_ops
from trtsmith.importers.opdef import PLUGIN_NAMESPACE
from trtsmith.importers.registry import OPS

_NARROW = frozenset({torch.float16, torch.bfloat16})


class HalfStorage(TorchDispatchMode):
    """Within it, operators get what has 16 bits in float32, and each result is rounded once."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = {**(kwargs or {})}
        tensors = [leaf for leaf in tree_leaves((args, given)) if isinstance(leaf, Tensor)]
        if not any(tensor.dtype in _NARROW for tensor in tensors):
            return func(*args, **given)
        if func.namespace == PLUGIN_NAMESPACE:
            with self:  # its reference is made of other operators
                return _computed(func, args)
        if given.get("dtype") is not None or _gives_views(func):
            return func(*args, **given)
        floats = [tensor.dtype for tensor in tensors if tensor.is_floating_point()]
        dtype = reduce(torch.promote_types, floats)
        wide_args, wide_given = tree_map(_wide, (args, given))
        result = func(*wide_args, **wide_given)
        if func._schema.is_mutable:
            for before, after in zip(
                tree_leaves((args, given)), tree_leaves((wide_args, wide_given)), strict=True
            ):
                if after is not before:
                    before.copy_(after)
            return args[0]
        return tree_map(lambda leaf: _as(leaf, dtype), result)


def _computed(func: Any, args: Sequence[Any]) -> Any:
    """What an operator of ours gives; PyTorch calls its reference with the mode switched off."""
    op = next(op for op in OPS if op.snake_name == func._opname)
    tensors, fields = torch_ops._split(op, args)
    assert op.torch_reference is not None
    return torch_ops._result(op, op.torch_reference(fields, tensors))


def _gives_views(func: Any) -> bool:
    return not func._schema.is_mutable and any(
        output.alias_info is not None for output in func._schema.returns
    )


def _wide(leaf: Any) -> Any:
    return leaf.float() if isinstance(leaf, Tensor) and leaf.dtype in _NARROW else leaf


def _as(leaf: Any, dtype: torch.dtype) -> Any:
    return leaf.to(dtype) if isinstance(leaf, Tensor) and leaf.dtype == torch.float32 else leaf
