"""Writes operators of PyTorch that its ONNX exporter does not translate, in terms of others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

_aten = torch.ops.aten


def _is_all_true(x: Any) -> Any:
    return torch.all(x)


def _cumulative(extreme: str) -> Callable[[Any, int], tuple[Any, Any]]:
    """The largest or smallest element so far and its last place, from all pairs of elements along the axis."""

    def rule(x: Any, dim: int) -> tuple[Any, Any]:
        if x.dim() == 0:
            return x.clone(), torch.zeros_like(x, dtype=torch.int64)
        last = x.movedim(dim, -1)
        places = torch.arange(last.shape[-1], device=x.device)
        seen = places[None, :] <= places[:, None]
        pairs = last.unsqueeze(-2)
        worst = torch.finfo if x.dtype.is_floating_point else torch.iinfo
        none = worst(x.dtype).min if extreme == "amax" else worst(x.dtype).max
        values = getattr(torch.where(seen, pairs, none), extreme)(-1)
        found = seen & _same(pairs, values.unsqueeze(-1))
        index = torch.where(found, places, -1).amax(-1)
        return values.movedim(-1, dim), index.movedim(-1, dim)

    return rule


def _same(a: Any, b: Any) -> Any:
    """Whether elements are equal, as numbers or as NaN, which is the extreme from there on."""
    return (a == b) | ((a != a) & (b != b))


RULES: Mapping[Any, Callable[..., Any]] = {
    _aten._is_all_true.default: _is_all_true,
    _aten.cummax.default: _cumulative("amax"),
    _aten.cummin.default: _cumulative("amin"),
}
"""By overload, as ExportedProgram.run_decompositions takes it. Sources: the operators' documentation in torch 2.13."""
