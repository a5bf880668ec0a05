"""Writes operators of PyTorch that its ONNX exporter does not translate, in terms of others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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


def _grouped_product(x: Any, weight: Any, offs: Any, *others: Any, **named: Any) -> Any:
    """Rows of x [S, K], sorted by group, times the matrix of theirs in weight [G, K, N]. offs: where each group ends.

    Each row takes its own matrix where that copies no more than the weights have, else it is multiplied by all of them, and
    one product is chosen: ONNX has no product of ragged groups. Rows behind the last group are zero.
    """
    if x.dim() != 2 or weight.dim() != 3 or any(one is not None for one in (*others, *named.values())):
        return NotImplemented
    rows, groups = torch.arange(x.shape[0], device=x.device), weight.shape[0]
    group = (rows[:, None] >= offs).sum(-1)
    own = group.clamp(max=groups - 1)
    if isinstance(x.shape[0], int) and x.shape[0] <= groups:
        product = torch.bmm(x[:, None], weight[own])[:, 0]
    else:
        product = torch.matmul(x, weight)[own, rows]
    return torch.where((group < groups)[:, None], product, 0.0)


RULES: Mapping[Any, Callable[..., Any]] = {
    _aten._is_all_true.default: _is_all_true,
    _aten.cummax.default: _cumulative("amax"),
    _aten.cummin.default: _cumulative("amin"),
    _aten._grouped_mm.default: _grouped_product,
}
"""By overload, as ExportedProgram.run_decompositions takes it. Sources: the operators' documentation in torch 2.13."""

_OF_LIBRARIES: Mapping[str, Callable[..., Any]] = {"transformers::grouped_mm_fallback": _grouped_product}
"""By name, operators that a library defines when it is imported: of mixtures of experts, in transformers 5."""


def rules_for(operators: Iterable[Any]) -> dict[Any, Callable[..., Any]]:
    """RULES, and those of the libraries' operators that a program calls."""
    found = {one: _OF_LIBRARIES.get(str(one._schema.name)) for one in operators}
    return {**RULES, **{operator: rule for operator, rule in found.items() if rule is not None}}
