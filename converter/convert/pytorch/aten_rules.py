"""Writes PyTorch operators that its ONNX exporter does not translate as other operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

_aten = torch.ops.aten


def _is_all_true(x: Any) -> Any:
    return torch.all(x)


def _cumulative(extreme: str) -> Callable[[Any, int], tuple[Any, Any]]:
    """The cumulative maximum or minimum and its last position, from all pairs of elements along the axis."""

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
    """Whether elements are equal as numbers, or both NaN, which stays the extreme once it occurs."""
    return (a == b) | ((a != a) & (b != b))


def _grouped_product(x: Any, weight: Any, offs: Any, *others: Any, **named: Any) -> Any:
    """Multiplies rows of x [S, K], sorted by group, by their group's matrix in weight [G, K, N]. offs: the end of each
    group.

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


_FEW_ROWS = 25
"""Up to so many rows on both sides, torch.cdist takes differences; beyond, products of matrices."""


def _distances(a: Any, b: Any, p: float = 2.0, mode: int | None = None) -> Any:
    """The p-norm of a[..., i, :] - b[..., j, :], computed as in torch.cdist: by products only for p = 2."""
    many = any(not isinstance(x.shape[-2], int) or x.shape[-2] > _FEW_ROWS for x in (a, b))
    if p == 2 and (mode == 1 or (not mode and many)):
        squares = a.square().sum(-1)[..., :, None] + b.square().sum(-1)[..., None, :]
        return (squares - 2 * torch.matmul(a, b.mT)).clamp(min=0).sqrt()
    apart = (a.unsqueeze(-2) - b.unsqueeze(-3)).abs()
    if p == 0:
        return (apart != 0).to(a.dtype).sum(-1)
    if p == math.inf:
        return apart.amax(-1)
    return apart.square().sum(-1).sqrt() if p == 2 else apart.pow(p).sum(-1).pow(1 / p)


def _kth_smallest(x: Any, k: Any, dim: int = -1, keepdim: bool = False) -> tuple[Any, Any]:
    if x.dim() == 0:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    values, places = torch.topk(x, k, dim, largest=False)
    values, places = (one.narrow(dim, k - 1, 1) for one in (values, places))
    return (values, places) if keepdim else (values.squeeze(dim), places.squeeze(dim))


def _median(x: Any, dim: int, keepdim: bool = False) -> tuple[Any, Any]:
    """The lower of two medians; NaN if any element is."""
    values, places = _kth_smallest(x, (x.shape[dim] + 1) // 2 if x.dim() else 1, dim, keepdim)
    if x.dtype.is_floating_point and x.dim():
        values = torch.where((x != x).any(dim, keepdim), math.nan, values)
    return values, places


def _median_of_all(x: Any) -> Any:
    return _median(x.reshape(-1), 0)[0]


def _stable_sort(x: Any, *, stable: bool | None = None, dim: int = -1, descending: bool = False) -> Any:
    """Sorts by ONNX's TopK as the exporter does, which is stable: of equal elements the lower index comes first."""
    return _aten.sort.default(x, dim, descending)


def _stable_order(x: Any, *, stable: bool, dim: int = -1, descending: bool = False) -> Any:
    return _stable_sort(x, dim=dim, descending=descending)[1]


def _places_to_insert(
    ordered: Any,
    values: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    """The number of elements of the sorted row before each value."""
    rows = (ordered if sorter is None else ordered.gather(-1, sorter)).unsqueeze(-2)
    value = values.unsqueeze(-1)
    before = rows <= value if right or side == "right" else rows < value
    return before.sum(-1).to(torch.int32 if out_int32 else torch.int64)


RULES: Mapping[Any, Callable[..., Any]] = {
    _aten._is_all_true.default: _is_all_true,
    _aten.cummax.default: _cumulative("amax"),
    _aten.cummin.default: _cumulative("amin"),
    _aten._grouped_mm.default: _grouped_product,
    _aten.cdist.default: _distances,
    _aten._cdist_forward.default: _distances,
    _aten.kthvalue.default: _kth_smallest,
    _aten.median.dim: _median,
    _aten.median.default: _median_of_all,
    _aten.sort.stable: _stable_sort,
    _aten.argsort.stable: _stable_order,
    _aten.searchsorted.Tensor: _places_to_insert,
}
"""By overload, as ExportedProgram.run_decompositions takes it. Sources: the operators' documentation in torch 2.13."""

_OF_LIBRARIES: Mapping[str, Callable[..., Any]] = {"transformers::grouped_mm_fallback": _grouped_product}
"""By name, operators that a library defines when it is imported: of mixtures of experts, in transformers 5."""


def rules_for(operators: Iterable[Any]) -> dict[Any, Callable[..., Any]]:
    """Returns RULES, and the rules of library operators that a program calls."""
    found = {one: _OF_LIBRARIES.get(str(one._schema.name)) for one in operators}
    return {**RULES, **{operator: rule for operator, rule in found.items() if rule is not None}}
