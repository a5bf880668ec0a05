"""Writes PyTorch operators that its ONNX exporter does not translate as other operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from trtsmith.converter.convert.pytorch.pooling_rules import (
    adaptive_average,
    adaptive_maximum,
    divided_sums,
)
from trtsmith.converter.convert.pytorch.resampling_rules import antialiased_cubic, antialiased_linear
from trtsmith.converter.convert.pytorch.scatter_rules import (
    index_reduced,
    scatter_of_part,
    scatter_reduced,
    scattered,
    scattered_value,
    with_diagonal,
    with_strided,
)

_aten = torch.ops.aten


def _is_all_true(x: Any) -> Any:
    return torch.all(x)


def _pairs(x: Any, dim: int) -> tuple[Any, Any, Any]:
    """(elements along the axis [..., 1, n], their positions [n], whether the row's element comes no later [n, n])."""
    last = x.movedim(dim, -1)
    places = torch.arange(last.shape[-1], device=x.device)
    return last.unsqueeze(-2), places, places[None, :] <= places[:, None]


def _limits(x: Any) -> Any:
    return (torch.finfo if x.dtype.is_floating_point else torch.iinfo)(x.dtype)


def _cumulative(extreme: str) -> Callable[[Any, int], tuple[Any, Any]]:
    """The cumulative maximum or minimum and its last position, from all pairs of elements along the axis."""

    def rule(x: Any, dim: int) -> tuple[Any, Any]:
        if x.dim() == 0:
            return x.clone(), torch.zeros_like(x, dtype=torch.int64)
        pairs, places, seen = _pairs(x, dim)
        none = _limits(x).min if extreme == "amax" else _limits(x).max
        values = getattr(torch.where(seen, pairs, none), extreme)(-1)
        found = seen & _same(pairs, values.unsqueeze(-1))
        index = torch.where(found, places, -1).amax(-1)
        return values.movedim(-1, dim), index.movedim(-1, dim)

    return rule


def _cumulative_product(x: Any, dim: int, *, dtype: Any = None) -> Any:
    """By doubling where the length is known: each step multiplies by what is 1, 2, 4, ... elements before."""
    x = x.to(dtype or (x.dtype if x.dtype.is_floating_point else torch.int64))
    if x.dim() == 0:
        return x.clone()
    if not isinstance(x.shape[dim], int):
        pairs, _, seen = _pairs(x, dim)
        return torch.where(seen, pairs, 1).prod(-1).movedim(-1, dim)
    last, step = x.movedim(dim, -1), 1
    while step < last.shape[-1]:
        before = torch.cat([torch.ones_like(last[..., :step]), last[..., :-step]], -1)
        last, step = last * before, 2 * step
    return last.movedim(-1, dim)


def _cumulative_logsumexp(x: Any, dim: int) -> Any:
    if x.dim() == 0:
        return x.clone()
    pairs, _, seen = _pairs(x, dim)
    return torch.where(seen, pairs, -math.inf).logsumexp(-1).movedim(-1, dim)


def _mode(x: Any, dim: int = -1, keepdim: bool = False) -> tuple[Any, Any]:
    """The smallest of the most frequent values, and its last position, from all pairs of elements along the axis."""
    if x.dim() == 0:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    pairs, places, _ = _pairs(x, dim)
    last = pairs.squeeze(-2)
    count = (pairs == last.unsqueeze(-1)).sum(-1)
    values = torch.where(count == count.amax(-1, True), last, _limits(x).max).amin(-1, True)
    index = torch.where(last == values, places, -1).amax(-1, True)
    values, index = values.movedim(-1, dim), index.movedim(-1, dim)
    return (values, index) if keepdim else (values.squeeze(dim), index.squeeze(dim))


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
    return _norm(a.unsqueeze(-2) - b.unsqueeze(-3), p)


def _pair_distances(x: Any, p: float = 2.0) -> Any:
    """The p-norm of x[i] - x[j] for i < j, in the order of the strict upper triangle of a matrix."""
    rows = x.shape[0]
    pair = torch.arange(rows * (rows - 1) // 2, device=x.device)

    def first(row: Any) -> Any:
        return row * (2 * rows - 1 - row) // 2

    # Solves first(row) = pair in float32, which is one off at most, and corrects that in integers.
    row = (
        ((2 * rows - 1 - ((2 * rows - 1) ** 2 - 8.0 * pair).clamp(min=0).sqrt()) / 2).floor().to(torch.int64)
    )
    row = torch.where(first(row + 1) <= pair, row + 1, row)
    row = torch.where(first(row) > pair, row - 1, row)
    return _norm(x[row] - x[pair - first(row) + row + 1], p)


def _norm(apart: Any, p: float) -> Any:
    """The p-norm along the last dimension."""
    apart = apart.abs()
    if p == 0:
        return (apart != 0).to(apart.dtype).sum(-1)
    if p == math.inf:
        return apart.amax(-1)
    return apart.square().sum(-1).sqrt() if p == 2 else apart.pow(p).sum(-1).pow(1 / p)


def _attention(
    q: Any,
    k: Any,
    v: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Attention of other than four axes as one of four, with a single head: the exporter takes no other."""
    if q.dim() == 4 or enable_gqa:
        return NotImplemented

    def of_four(x: Any) -> Any:
        return x.reshape(-1, 1, *x.shape[-2:])

    if attn_mask is not None and attn_mask.dim() > 2:
        attn_mask = of_four(attn_mask.expand(*q.shape[:-2], *attn_mask.shape[-2:]))
    made = _aten.scaled_dot_product_attention.default(
        *map(of_four, (q, k, v)), attn_mask, dropout_p, is_causal, scale=scale
    )
    return made.reshape(*q.shape[:-1], v.shape[-1])


def _extreme_of_all(operator: Any) -> Callable[..., Any]:
    """Names all axes where the call names none."""

    def rule(x: Any, dim: Sequence[int] = (), keepdim: bool = False) -> Any:
        return NotImplemented if dim or x.dim() == 0 else operator(x, list(range(x.dim())), keepdim)

    return rule


def _extremes(x: Any, *, dim: int | None = None, keepdim: bool = False) -> tuple[Any, Any]:
    if x.dim() == 0:
        return x.clone(), x.clone()
    axes = list(range(x.dim())) if dim is None else [dim]
    return x.amin(axes, keepdim), x.amax(axes, keepdim)


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


def _median_of_numbers(x: Any, dim: int, keepdim: bool = False) -> tuple[Any, Any]:
    """The lower of two medians of what is no NaN; NaN if every element is."""
    if x.dim() == 0 or not x.dtype.is_floating_point:
        return _median(x, dim, keepdim)
    number = x == x
    count = number.sum(dim, True)
    values, places = torch.topk(torch.where(number, x, math.inf), (x.shape[dim] + 1) // 2, dim, largest=False)
    middle = ((count - 1) // 2).clamp(min=0)
    values, places = (one.gather(dim, middle) for one in (values, places))
    values = torch.where(count == 0, math.nan, values)
    return (values, places) if keepdim else (values.squeeze(dim), places.squeeze(dim))


def _median_of_all_numbers(x: Any) -> Any:
    return _median_of_numbers(x.reshape(-1), 0)[0]


def _first_nonzero(x: Any, *, size: int, fill_value: int = -1) -> Any:
    """The coordinates of the first `size` nonzero elements [size, rank], and the fill value behind the last one."""
    flat = x.reshape(-1)
    none = flat.shape[0]
    places = torch.where(flat != 0, torch.arange(none, device=x.device), none)
    places = torch.cat([places, torch.full((size,), none, device=x.device)])
    places = torch.topk(places, size, largest=False)[0]
    rest, found = places, list[Any]()
    for length in reversed(x.shape):
        above = rest // length
        found.insert(0, torch.where(places < none, rest - above * length, fill_value))
        rest = above
    return torch.stack(found, -1) if found else places.new_zeros(size, 0)


def _histogram(x: Any, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    """How many elements each of the bins holds, of which the last has its end. Of equal limits, those of the data count."""
    flat = x.reshape(-1).to(torch.float32) if x.dtype == torch.float16 else x.reshape(-1)
    low, high = flat.new_full((1,), min), flat.new_full((1,), max)
    if min == max:
        low, high = flat.amin(0, True), flat.amax(0, True)
        low, high = torch.where(low == high, low - 1, low), torch.where(low == high, high + 1, high)
    edge = torch.arange(bins, device=x.device)
    step = (high - low) / bins
    edges = torch.where(edge < (bins + 1) // 2, low + step * edge, high - step * (bins - edge)).to(x.dtype)
    from_edge = (flat >= edges[:, None]).sum(-1)
    return (from_edge - torch.cat([from_edge[1:], (flat > high).sum(-1, True)])).to(x.dtype)


def _is_in(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Any:
    found = (elements.unsqueeze(-1) == test_elements.reshape(-1)).any(-1)
    return ~found if invert else found


def _selected(x: Any, mask: Any) -> Any:
    x, mask = torch.broadcast_tensors(x, mask)
    return _aten.index.Tensor(x.reshape(-1), [mask.reshape(-1)])


def _extreme_number(extreme: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The larger or smaller of two; of a NaN, the other."""

    def rule(a: Any, b: Any) -> Any:
        return torch.where(a != a, b, torch.where(b != b, a, extreme(a, b)))

    return rule


def _hypotenuse(a: Any, b: Any) -> Any:
    """sqrt(a^2 + b^2), whose squares do not overflow."""
    large, small = torch.maximum(a.abs(), b.abs()), torch.minimum(a.abs(), b.abs())
    whole = large * (1 + (small / large).square()).sqrt()
    return torch.where((large == 0) | torch.isinf(large), large, whole)


def _is_negative(x: Any) -> Any:
    """Tells the sign of -0.0, too, by dividing."""
    return (x < 0) | ((x == 0) & (1 / x < 0))


def _angle(y: Any, x: Any) -> Any:
    """The exporter's own has -pi for a y of zero, where PyTorch has pi."""
    angle = torch.atan(y / x)
    turned = angle + torch.where(_is_negative(y), -math.pi, math.pi)
    return torch.where((x == 0) & (y == 0), 0.0, torch.where(x < 0, turned, angle))


def _with_sign(a: Any, b: Any) -> Any:
    """The magnitudes of a with the signs of b."""
    size = a.abs() if a.dtype.is_floating_point else a.abs().to(torch.get_default_dtype())
    return torch.where(_is_negative(b), -size, size)


def _inverse_of_factored(factor: Any, upper: bool = False) -> Any:
    """The inverse of L @ L.mT, or U.mT @ U, by that of the triangle alone: its condition is the product's square root."""
    inverse = _aten.linalg_inv_ex.default(factor.mT.tril() if upper else factor.tril())[0]
    return torch.matmul(inverse.mT, inverse)


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
    rows = ordered if sorter is None else ordered.gather(-1, sorter)
    rows = rows.unsqueeze(-2) if values.dim() else rows
    value = values.unsqueeze(-1)
    before = rows <= value if right or side == "right" else rows < value
    return before.sum(-1).to(torch.int32 if out_int32 else torch.int64)


def _place_to_insert(ordered: Any, value: float, **options: Any) -> Any:
    return _places_to_insert(ordered, ordered.new_full((), value), **options)


def _bucket(x: Any, boundaries: Any, **options: Any) -> Any:
    """PyTorch's own form, a binary search, is of a known number of boundaries, and of more than a scalar."""
    if isinstance(boundaries.shape[0], int) and x.dim():
        return NotImplemented
    return _places_to_insert(boundaries, x, **options)


def _bucket_of_value(value: float, boundaries: Any, **options: Any) -> Any:
    return _place_to_insert(boundaries, value, **options)


RULES: Mapping[Any, Callable[..., Any]] = {
    _aten._is_all_true.default: _is_all_true,
    _aten.cummax.default: _cumulative("amax"),
    _aten.cummin.default: _cumulative("amin"),
    _aten.cumprod.default: _cumulative_product,
    _aten.logcumsumexp.default: _cumulative_logsumexp,
    _aten.mode.default: _mode,
    _aten._grouped_mm.default: _grouped_product,
    _aten.scaled_dot_product_attention.default: _attention,
    _aten.amax.default: _extreme_of_all(_aten.amax.default),
    _aten.amin.default: _extreme_of_all(_aten.amin.default),
    _aten.aminmax.default: _extremes,
    _aten.cdist.default: _distances,
    _aten._cdist_forward.default: _distances,
    _aten.pdist.default: _pair_distances,
    _aten._pdist_forward.default: _pair_distances,
    _aten.kthvalue.default: _kth_smallest,
    _aten.median.dim: _median,
    _aten.median.default: _median_of_all,
    _aten.nanmedian.dim: _median_of_numbers,
    _aten.nanmedian.default: _median_of_all_numbers,
    _aten.nonzero_static.default: _first_nonzero,
    _aten.histc.default: _histogram,
    _aten.isin.Tensor_Tensor: _is_in,
    _aten.masked_select.default: _selected,
    _aten.fmax.default: _extreme_number(torch.maximum),
    _aten.fmin.default: _extreme_number(torch.minimum),
    _aten.atan2.default: _angle,
    _aten.copysign.Tensor: _with_sign,
    _aten.hypot.default: _hypotenuse,
    _aten.cholesky_inverse.default: _inverse_of_factored,
    _aten.index_reduce.default: index_reduced,
    _aten.scatter.src: scatter_of_part(_aten.scatter.src),
    _aten.scatter_add.default: scatter_of_part(_aten.scatter_add.default),
    _aten.scatter_reduce.two: scatter_reduced,
    _aten.scatter.reduce: scattered,
    _aten.scatter.value_reduce: scattered_value,
    _aten.diagonal_scatter.default: with_diagonal,
    _aten.as_strided_scatter.default: with_strided,
    _aten._upsample_bilinear2d_aa.vec: antialiased_linear,
    _aten._upsample_bicubic2d_aa.vec: antialiased_cubic,
    _aten.avg_pool2d.default: divided_sums(2, _aten.avg_pool2d.default),
    _aten.avg_pool3d.default: divided_sums(3, _aten.avg_pool3d.default),
    _aten.adaptive_avg_pool3d.default: adaptive_average,
    _aten._adaptive_avg_pool3d.default: adaptive_average,
    _aten.adaptive_max_pool1d.default: adaptive_maximum,
    _aten.adaptive_max_pool2d.default: adaptive_maximum,
    _aten.adaptive_max_pool3d.default: adaptive_maximum,
    _aten.sort.stable: _stable_sort,
    _aten.argsort.stable: _stable_order,
    _aten.searchsorted.Tensor: _places_to_insert,
    _aten.searchsorted.Scalar: _place_to_insert,
    _aten.bucketize.Tensor: _bucket,
    _aten.bucketize.Scalar: _bucket_of_value,
}
"""By overload, as ExportedProgram.run_decompositions takes it. Sources: the operators' documentation in torch 2.13."""

_OF_LIBRARIES: Mapping[str, Callable[..., Any]] = {"transformers::grouped_mm_fallback": _grouped_product}
"""By name, operators that a library defines when it is imported: of mixtures of experts, in transformers 5."""


def rules_for(operators: Iterable[Any]) -> dict[Any, Callable[..., Any]]:
    """Returns RULES, and the rules of library operators that a program calls."""
    found = {one: _OF_LIBRARIES.get(str(one._schema.name)) for one in operators}
    return {**RULES, **{operator: rule for operator, rule in found.items() if rule is not None}}
