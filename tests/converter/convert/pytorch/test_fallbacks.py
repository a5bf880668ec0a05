"""Modules that torch.onnx.export does not take at first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import nn
from torch.export import Dim

import trtsmith
from trtsmith.converter.convert.opening import open_model
from trtsmith.converter.convert.pytorch import onnx_program
from trtsmith.converter.convert.pytorch.aten_rules import RULES
from trtsmith.converter.convert.pytorch.torch_source import TorchModule
from trtsmith.converter.model.ort import run
from trtsmith.importers import torch_ops


class _Ragged(nn.Module):
    """What Grounding DINO and RT-DETR v2 call."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, places = torch.cummax(x, dim=1)
        finite = torch.ops.aten._is_all_true(torch.isfinite(x))
        return values * torch.where(finite, 1.0, 0.5), places


def test_operators_that_the_exporter_does_not_know(tmp_path: Path) -> None:
    x = torch.tensor([[3.0, 3.0, -1.0, 5.0], [-2.0, -3.0, -2.0, -9.0]])[:, :, None].repeat(1, 1, 2)
    done = trtsmith.convert(
        _Ragged(), (x,), output=tmp_path / "net.plan", dynamic_shapes=({0: Dim("rows", min=2, max=8)},)
    )
    assert done.passed and len(done.verdict.comparisons) == 2


@pytest.mark.parametrize("name", ["cummax", "cummin"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_a_cumulative_extreme_is_pytorchs(name: str, dtype: Any) -> None:
    """Ties take the last place, NaN stays."""
    x = torch.tensor([[1.0, 3.0, 3.0, -4.0, 2.0, 7.0], [0.0, -1.0, -1.0, 5.0, 5.0, -9.0]]).to(dtype)
    cases = [(x, 1), (x, 0), (x, -1), (x[0, 0], 0)]
    if dtype is torch.float32:
        cases.append((torch.tensor([1.0, float("nan"), 2.0, float("nan"), -float("inf")]), 0))
    rule = RULES[getattr(torch.ops.aten, name).default]
    for data, dim in cases:
        for ours, theirs in zip(rule(data, dim), getattr(torch, name)(data, dim), strict=True):
            np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


_TIES = torch.tensor([[2.0, 0.0, 2.0, 1.0, 0.0], [1.0, 1.0, 3.0, 1.0, 1.0], [5.0, 4.0, 4.0, 5.0, -1.0]])
_ROW = torch.tensor([[0.0, 1.0, 1.0, 4.0], [-2.0, 0.0, 3.0, 3.0]])
_VALUES = torch.tensor([[1.0, -1.0, 9.0], [3.0, 0.5, -2.0]])
_NAN = torch.tensor([[1.0, float("nan"), 0.0, 7.0], [float("nan")] * 4, [1.0, 2.0, 0.0, 3.0]])
_VOLUME = torch.randint(0, 5, (2, 7, 8, 9)).float()
_ROWS_AT = torch.tensor([0, 2, 2, 0])
_COLUMNS_AT = torch.tensor([[0, 1, 1, 1], [4, 0, 4, 2]])


def _reduced(reduce: str, include_self: bool = True) -> Any:
    return lambda x, at, y: x.index_reduce(0, at, y, reduce, include_self=include_self)


def _attention(**options: Any) -> Any:
    return lambda q, k, v, *mask: nn.functional.scaled_dot_product_attention(q, k, v, *mask, **options)


def _attended(*lead: int) -> tuple[torch.Tensor, ...]:
    return torch.randn(*lead, 5, 8), torch.randn(*lead, 7, 8), torch.randn(*lead, 7, 6)


def _resized(mode: str, **options: Any) -> Any:
    return lambda x: nn.functional.interpolate(x, mode=mode, antialias=True, **options)


def _diagonals_written(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x.diagonal(1, 1, 2).copy_(y)
    return x


WITHOUT_TRANSLATION: dict[str, tuple[Any, tuple[torch.Tensor, ...]]] = {
    "cdist": (torch.cdist, (torch.randn(2, 5, 3), torch.randn(2, 4, 3))),
    "cdist of many rows": (torch.cdist, (torch.randn(30, 3), torch.randn(4, 3))),
    "cdist, p = 1": (lambda a, b: torch.cdist(a, b, p=1.0), (torch.randn(5, 3), torch.randn(4, 3))),
    "cdist, p = 3": (lambda a, b: torch.cdist(a, b, p=3.0), (torch.randn(5, 3), torch.randn(4, 3))),
    "cdist, p = 0": (lambda a, b: torch.cdist(a, b, p=0.0), (_TIES, _TIES + 0)),
    "cdist, the largest": (lambda a, b: torch.cdist(a, b, p=float("inf")), (torch.randn(5, 3), torch.randn(4, 3))),
    "kthvalue": (lambda x: torch.kthvalue(x, 2, 0, keepdim=True)[0], (_TIES,)),
    "median": (lambda x: x.median(dim=1)[0], (_TIES,)),
    "median of an even number": (lambda x: x.median(dim=0, keepdim=True)[0], (torch.cat([_TIES, _TIES - 1]),)),
    "median with NaN": (lambda x: x.median(dim=1)[0], (torch.tensor([[1.0, float("nan"), 0.0], [1.0, 2.0, 0.0]]),)),
    "median of all": (torch.median, (_TIES,)),
    "a stable sort": (lambda x: torch.sort(x, dim=0, stable=True)[1], (_TIES.repeat(9, 1),)),
    "a stable descending sort": (lambda x: torch.argsort(x, descending=True, stable=True), (_TIES.repeat(1, 9),)),
    "searchsorted": (torch.searchsorted, (_ROW, _VALUES)),
    "searchsorted, right": (lambda a, b: torch.searchsorted(a, b, side="right", out_int32=True), (_ROW, _VALUES)),
    "searchsorted in a vector": (torch.searchsorted, (_ROW[0], _VALUES)),
    "searchsorted of one value": (lambda x: torch.searchsorted(x, 1), (_ROW[0],)),
    "bucketize": (lambda x, ends: torch.bucketize(x, ends, right=True), (_VALUES, _ROW[0])),
    "bucketize of a scalar": (lambda x, ends: torch.bucketize(x, ends, out_int32=True), (_VALUES[0, 0], _ROW[0])),
    "bucketize of a number": (lambda ends: torch.bucketize(1, ends), (_ROW[0],)),
    "searchsorted by a sorter": (
        lambda a, b, order: torch.searchsorted(a, b, sorter=order),
        (_ROW.flip(-1), _VALUES, torch.tensor([[3, 2, 1, 0], [3, 2, 1, 0]])),
    ),
    "attention of two axes": (_attention(scale=0.3), _attended()),
    "attention of three axes, with a mask": (_attention(), (*_attended(2), torch.rand(2, 5, 7) > 0.3)),
    "attention of five axes, causal": (_attention(is_causal=True), _attended(2, 3, 2)),
    "attention of four axes": (_attention(), (*_attended(2, 3), torch.randn(5, 7))),
    "extremes of all": (lambda x: (x.amax(), x.amin(), *torch.aminmax(x)), (_TIES,)),
    "extremes along axes": (lambda x: (x.amax((0, 1), True), *torch.aminmax(x, dim=1)), (_TIES.long(),)),
    "mode": (lambda x: torch.mode(x, 1), (_TIES,)),
    "mode of integers": (lambda x: torch.mode(x, 0, keepdim=True), (_TIES.long(),)),
    "mode in float16": (lambda x: torch.mode(x, 1), (_TIES.half(),)),
    "nanmedian": (lambda x: x.nanmedian(1)[0], (_NAN,)),
    "nanmedian of all": (torch.nanmedian, (_NAN[2:],)),
    "nanmedian of integers": (lambda x: x.nanmedian(1)[0], (_TIES.int(),)),
    "nonzero_static": (lambda x: torch.nonzero_static(x, size=4), (_TIES,)),
    "nonzero_static, filled": (lambda x: torch.nonzero_static(x, size=20, fill_value=7), (_TIES.long(),)),
    "histc": (lambda x: torch.histc(x, 4, 0.0, 4.0), (_TIES,)),
    "histc of the data's limits": (lambda x: torch.histc(x, 6), (_TIES,)),
    "histc of equal elements": (lambda x: torch.histc(x, 3), (torch.ones(4),)),
    "isin of many": (torch.isin, (_TIES, torch.arange(40.0).reshape(2, 20) - 38)),
    "masked_select": (lambda x: torch.masked_select(x, x[:1] > 0), (_TIES,)),
    "fmax and fmin": (lambda a, b: (torch.fmax(a, b), torch.fmin(a, b)), (_NAN, _NAN.flip(1))),
    "copysign": (torch.copysign, (_ROW, torch.tensor([1.0, 0.0, -0.0, -3.0]))),
    "copysign of integers": (torch.copysign, (_ROW.long(), -_ROW[:1])),
    "atan2": (
        torch.atan2, (torch.tensor([0.0, -0.0, 1.0, -1.0, 2.0, 0.0, 0.0]), torch.tensor([-1.0, -1.0, 0, 0, -3, 0, 4])),
    ),
    "atan2 of integers": (torch.atan2, (_ROW.long(), -_ROW[:1].long())),
    "hypot": (torch.hypot, (torch.tensor([0.0, 3e30, -3.0, float("inf")]), torch.tensor([0.0, 4e30, 4.0, -1.0]))),
    "cumprod": (lambda x: torch.cumprod(x, 1), (_TIES + 0.5,)),
    "cumprod of integers": (lambda x: torch.cumprod(x, 0), (_TIES.int() + 1,)),
    "logcumsumexp": (lambda x: torch.logcumsumexp(x, 1), (_TIES * 60,)),
    "pdist": (torch.pdist, (torch.randn(70, 3),)),
    "pdist, p = 0": (lambda x: torch.pdist(x, 0.0), (_TIES,)),
    "index_reduce, amax": (_reduced("amax"), (_TIES, _ROWS_AT, _TIES.flip(1).repeat(2, 1)[:4])),
    "index_reduce, amin of its own": (_reduced("amin", False), (_TIES, _ROWS_AT, torch.randn(4, 5))),
    "index_reduce, prod": (_reduced("prod"), (_TIES, _ROWS_AT, torch.randn(4, 5))),
    "index_reduce, mean": (_reduced("mean"), (_TIES, _ROWS_AT, torch.randn(4, 5))),
    "index_reduce, mean of its own": (_reduced("mean", False), (_TIES, _ROWS_AT, torch.randn(4, 5))),
    "index_reduce, mean of integers": (_reduced("mean"), (_TIES.long(), _ROWS_AT, -_TIES.long().repeat(2, 1)[:4])),
    "scatter_reduce, mean": (
        lambda x, at, y: x.scatter_reduce(1, at, y, "mean"), (_TIES, _COLUMNS_AT, torch.randn(3, 4)),
    ),
    "scatter_reduce of a part": (
        lambda x, at, y: x.scatter_reduce(1, at, y, "amax"), (_TIES, _COLUMNS_AT, torch.randn(3, 5)),
    ),
    "scatter of a part": (lambda x, at, y: x.scatter(1, at, y), (_TIES, _COLUMNS_AT[:, :2], torch.randn(3, 5))),
    "scatter_add of a part": (lambda x, at, y: x.scatter_add(1, at, y), (_TIES, _COLUMNS_AT, torch.randn(3, 5))),
    "scatter, add": (lambda x, at, y: x.scatter(1, at, y, reduce="add"), (_TIES, _COLUMNS_AT, torch.randn(3, 5))),
    "scatter, multiply": (lambda x, at: x.scatter(1, at, 2, reduce="multiply"), (_TIES.long(), _COLUMNS_AT)),
    "a diagonal": (_diagonals_written, (torch.randn(2, 3, 4), torch.randn(2, 3))),
    "a diagonal below": (lambda x, y: torch.diagonal_scatter(x, y, -1), (torch.randn(4, 3), torch.randn(3))),
    "fill_diagonal_": (lambda x: x.clone().fill_diagonal_(9.0), (_TIES,)),
    "antialiased by a scale, linear": (_resized("bilinear", scale_factor=0.6), (_VOLUME,)),
    "antialiased by scales, cubic": (_resized("bicubic", scale_factor=(0.45, 1.3)), (_VOLUME,)),
    "antialiased, corners aligned": (_resized("bicubic", size=(1, 4), align_corners=True), (_VOLUME,)),
    "antialiased by a scale, corners aligned": (_resized("bilinear", scale_factor=0.7, align_corners=True), (_VOLUME,)),
    "antialiased to a size": (_resized("bilinear", size=(5, 6)), (_VOLUME,)),
    "average pooling by a divisor": (
        lambda x: nn.functional.avg_pool2d(x, 3, 2, 1, count_include_pad=False, divisor_override=2), (_VOLUME,),
    ),
    "average pooling of volumes by a divisor": (
        lambda x: nn.functional.avg_pool3d(x, (2, 3, 2), divisor_override=5), (_VOLUME,),
    ),
    "average pooling to sizes": (lambda x: nn.functional.adaptive_avg_pool3d(x, (3, 4, 1)), (_VOLUME,)),
    "maximum pooling to a size": (
        lambda x: nn.functional.adaptive_max_pool1d(x, 3, return_indices=True), (_VOLUME[0],),
    ),
    "maximum pooling to one": (nn.AdaptiveMaxPool2d(1), (_VOLUME,)),
    "maximum pooling to sizes": (
        lambda x: nn.functional.adaptive_max_pool3d(x, (3, 4, 2), return_indices=True), (_VOLUME,),
    ),
}  # fmt: skip


class _Calls(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.function(*tensors)


@pytest.mark.parametrize("case", WITHOUT_TRANSLATION)
def test_functions_that_the_exporter_does_not_translate(case: str) -> None:
    """By the newer exporter and the rules, without the older one that would be tried next."""
    function, tensors = WITHOUT_TRANSLATION[case]
    program = torch.export.export(_Calls(function), tensors)
    program = program.run_decompositions({**RULES, **torch_ops.decompositions()})
    exported = torch.onnx.export(
        program, dynamo=True, verbose=False, custom_translation_table=torch_ops.translations()
    )
    assert exported is not None
    expected = function(*tensors)
    found = tuple(exported(*tensors)) if isinstance(expected, tuple) else exported(*tensors)[0]
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5, equal_nan=True)


def _orders(x: torch.Tensor) -> Any:
    small = x.to(torch.float16)
    return (
        torch.mode(x, 1), torch.mode(small, 0), torch.mode(x.long(), 1), x.nanmedian(0)[0], torch.histc(x, 4),
        torch.nonzero_static(x, size=4), torch.isin(x, torch.arange(30.0) - 28), torch.masked_select(x, x > 0),
        torch.fmax(x, -x), torch.atan2(x, small - 1), torch.copysign(x, x - 1), torch.hypot(x, small),
        torch.searchsorted(x[0] * 0, 1),
        torch.bucketize(x, x[:, 0].cumsum(0)),
    )  # fmt: skip


def _scattered(x: torch.Tensor, at: torch.Tensor, y: torch.Tensor) -> Any:
    found = [x.index_reduce(0, at, y, reduce) for reduce in ("amax", "amin", "prod", "mean")]
    whole = x.half().index_reduce(0, at, y.half(), "mean", include_self=False)
    columns = at[:, None] % 2
    parts = x.scatter(0, columns, 2.0, reduce="multiply"), x.scatter_add(0, columns, y[:, :2])
    square = torch.matmul(x.mT, x)
    return (*found, whole, *parts, square.clone().fill_diagonal_(0.5), torch.diagonal_scatter(square, x[0]))


def _pooled(x: torch.Tensor) -> Any:
    sizes = nn.functional.adaptive_avg_pool3d(x, (3, 2, None)), nn.functional.adaptive_avg_pool3d(x.half(), 2)
    resized = _resized("bilinear", scale_factor=0.6)(x.transpose(1, 2))
    return (
        resized,
        *sizes,
        *nn.functional.adaptive_max_pool2d(x, (3, 2), return_indices=True),
        nn.AdaptiveMaxPool3d(1)(x),
    )


def _products(x: torch.Tensor) -> Any:
    factors = torch.matmul(x.mT, x) + torch.eye(5)
    inverses = torch.cholesky_inverse(factors), torch.cholesky_inverse(factors.repeat(2, 1, 1), upper=True)
    attended = nn.functional.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None])
    running = torch.cumprod(x, 0), torch.cumprod(x, 1), torch.logcumsumexp(x, 0)
    return (*running, attended, x.amax(), torch.pdist(x), torch.pdist(x.half().float(), 1.0), *inverses)


_MANY, _LONG = Dim("many", min=2, max=9), Dim("long", min=4, max=12)
BUILT: dict[str, tuple[Any, tuple[torch.Tensor, ...], Any]] = {
    "orders": (_orders, (_TIES,), ({0: _MANY},)),
    "scatters": (_scattered, (_TIES, _ROWS_AT, torch.randn(4, 5)), ({0: _MANY}, {0: _LONG}, {0: _LONG})),
    "pooling": (_pooled, (_VOLUME,), ({0: _MANY, 1: _LONG},)),
    "products": (_products, (_TIES,), ({0: _MANY},)),
}


@pytest.mark.parametrize("case", BUILT)
def test_rules_keep_dynamic_sizes_and_types_and_build(case: str, tmp_path: Path) -> None:
    function, tensors, shapes = BUILT[case]
    done = trtsmith.convert(_Calls(function), tensors, output=tmp_path / "net.plan", dynamic_shapes=(shapes,))
    assert done.passed and done.verdict is not None and done.verdict.status == "agree"
    assert not any("older exporter" in line for line in done.warnings)


def grouped_product(x: torch.Tensor, weight: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
    out, start = torch.zeros(x.shape[0], weight.shape[2]), 0
    for matrix, end in zip(weight, offs.tolist(), strict=True):
        out[start:end] = x[start:end] @ matrix
        start = end
    return out


@pytest.mark.parametrize(("rows", "ends"), [(3, [1, 1, 3, 3]), (9, [0, 4, 5, 8]), (9, [9, 9, 9, 9])])
def test_rows_of_groups_take_the_matrix_of_their_group(rows: int, ends: list[int]) -> None:
    """Groups without rows, and rows of no group; fewer rows than groups, and more."""
    x, weight, offs = torch.randn(rows, 5), torch.randn(4, 5, 6), torch.tensor(ends, dtype=torch.int32)
    rule = RULES[torch.ops.aten._grouped_mm.default]
    torch.testing.assert_close(rule(x, weight, offs), grouped_product(x, weight, offs))
    assert rule(x, weight, None, bias=torch.ones(6)) is NotImplemented


class _Spectrum(nn.Module):
    """torch.istft adds frames up by index_put with int32 indices."""

    def forward(self, wave: torch.Tensor) -> torch.Tensor:
        window = torch.hann_window(64)
        found = torch.stft(wave, 64, 16, window=window, return_complex=True)
        return torch.istft(found * 0.7, 64, 16, window=window)


def test_int32_indices_of_the_exporter(tmp_path: Path) -> None:
    assert trtsmith.convert(_Spectrum(), (torch.randn(2, 400),), output=tmp_path / "net.plan").passed


class _Experts(nn.Module):
    """A mixture of experts as transformers calls it: rows sorted by expert, and where each expert ends."""

    def __init__(self) -> None:
        super().__init__()
        self.router, self.weight = nn.Linear(8, 4), nn.Parameter(torch.randn(4, 8, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        expert, order = torch.sort(self.router(x).argmax(-1))
        offs = (expert[None, :] <= torch.arange(4)[:, None]).sum(-1).to(torch.int32)
        product = torch.ops.transformers.grouped_mm_fallback(x[order], self.weight, offs)
        return x + product[torch.argsort(order)]


def test_an_operator_of_a_library_is_known_by_its_name(tmp_path: Path) -> None:
    operator = torch.library.custom_op("transformers::grouped_mm_fallback", grouped_product, mutates_args=())
    operator.register_fake(lambda x, weight, offs: x.new_empty(x.shape[0], weight.shape[2]))
    done = trtsmith.convert(_Experts(), (torch.randn(6, 8),), output=tmp_path / "net.plan", precision="fp16")
    assert done.passed


def test_a_graph_that_pytorchs_optimizer_breaks_is_written_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[bool] = []
    export = torch.onnx.export

    def breaking(*args: Any, optimize: bool, f: str, **options: Any) -> None:
        tried.append(optimize)
        export(*args, optimize=optimize, f=f, **options)
        if optimize:
            model = onnx.load(f)
            del model.graph.node[0].input[:]
            onnx.save(model, f)

    monkeypatch.setattr(onnx_program.torch.onnx, "export", breaking)
    done = trtsmith.convert(nn.Hardtanh(), (torch.randn(3, 4),), output=tmp_path / "net.plan")
    assert done.passed and tried == [True, False]


def test_a_module_that_strict_mode_alone_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export = torch.export.export

    def picky(*args: Any, strict: bool, **options: Any) -> Any:
        if not strict:
            raise RuntimeError("not without strict")
        return export(*args, strict=strict, **options)

    monkeypatch.setattr(torch.export, "export", picky)
    done = trtsmith.convert(nn.Hardtanh(), (torch.randn(3, 4),), output=tmp_path / "net.plan")
    assert done.passed
    assert any("strict=True" in line for line in done.warnings)


class _Strided(nn.Module):
    """Padding from a stride that is kept in a buffer, as EnCodec and Mimi compute it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(1, 4, 3, stride=2)
        self.register_buffer("stride", torch.tensor(2), persistent=False)
        self.register_buffer("scale", torch.full((4, 1), 0.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        frames = torch.ceil((x.shape[-1] - 3) / self.stride + 1).to(torch.int64) - 1
        missing = frames * self.stride + 3 - x.shape[-1]
        return self.conv(nn.functional.pad(x, (0, int(missing)))) * self.scale


def test_an_integer_buffer_is_a_constant_where_sizes_depend_on_it(tmp_path: Path) -> None:
    net = _Strided()
    done = trtsmith.convert(
        net, (torch.rand(2, 1, 20),), output=tmp_path / "net.plan", dynamic_shapes=({0: Dim("n", max=4)},)
    )
    assert done.passed and "integer buffers are constants of the program: stride" in done.warnings
    assert type(net) is _Strided and list(net._buffers) == ["stride", "scale"]
    assert list(net.state_dict()) == ["scale", "conv.weight", "conv.bias"]


class _Parts(nn.Module):
    def forward(self, image: Any, parts: list[Any], scale: float = 1.0) -> dict[str, Any]:
        return {"rows": image * scale, "sums": (parts[0] + parts[1], None), "image": image + 1}


def test_the_older_exporter_gives_the_same_names_structures_and_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    args = torch.rand(3, 4), [torch.rand(2), torch.rand(2)]
    shapes = {"image": {0: Dim("rows", min=2, max=6)}, "parts": [None, None], "scale": None}
    said = []
    for name in ("new", "old"):
        if name == "old":
            monkeypatch.setattr(torch.export, "export", _refuse)
        done = trtsmith.convert(
            _Parts(), args, kwargs={"scale": 0.5}, dynamic_shapes=shapes, output=tmp_path / f"{name}.plan"
        )
        assert done.passed
        said.append(json.loads((tmp_path / f"{name}.manifest.json").read_text()))
    for key in ("profiles", "calling", "inputs", "outputs"):
        assert said[0].get(key) == said[1].get(key)
    assert any("older exporter" in line for line in done.warnings)


def _refuse(*args: Any, **options: Any) -> Any:
    raise RuntimeError("not this one")


class _Joined(nn.Module):
    def forward(self, image: Any, *others: Any) -> Any:
        return torch.cat([image, *others], dim=1)


_ROWS = {0: Dim("rows", min=2, max=6)}


@pytest.mark.parametrize("way", ["new", "old"])
@pytest.mark.parametrize(
    "shapes",
    [
        (_ROWS, _ROWS, _ROWS),
        (_ROWS, (_ROWS, _ROWS)),
        ((_ROWS[0], None), [(_ROWS[0], None), _ROWS]),
        {"image": _ROWS, "others": [_ROWS, _ROWS]},
    ],
    ids=["one by one", "in a tuple", "axes in tuples", "by name"],
)
def test_arguments_behind_a_star_keep_their_ranges(
    shapes: Any, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "old":
        monkeypatch.setattr(torch.export, "export", _refuse)
    args = torch.rand(3, 4), torch.rand(3, 1), torch.rand(3, 2)
    opened = open_model(TorchModule(_Joined(), args, {}, shapes))
    assert [(sizes.min[0], sizes.max[0]) for sizes in opened.profile.values()] == [(2, 6)] * 3
    assert not opened.endless


@torch.jit.script
def _doubled(x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    for _ in range(int(count.item())):
        x = x * 2
    return x


def test_a_module_that_the_older_exporter_alone_takes(tmp_path: Path) -> None:
    """TorchScript's loop stays one; what the tracer warns of in the user's code is refused (test_refusals.py)."""

    class Doubled(nn.Module):
        def forward(self, x: Any, count: Any) -> Any:
            return _doubled(x, count)

    done = trtsmith.convert(Doubled(), (torch.rand(2, 3), torch.tensor(3)), output=tmp_path / "net.plan")
    assert done.passed and any("older exporter" in line for line in done.warnings)
    assert [tensor.name for tensor in done.built.inputs] == ["x", "count"]


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU])
def test_sequences_of_any_length_through_a_recurrent_layer(layer: Any, tmp_path: Path) -> None:
    """torch.export fixes their length; code that asks for it is refused (test_refusals.py)."""

    class Recogniser(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer(4, 6, batch_first=True, bidirectional=True)

        def forward(self, x: Any) -> Any:
            return self.layer(x)[0].softmax(-1)

    lengths = ({0: Dim("batch", max=4), 1: Dim("length", max=20)},)
    module, x = Recogniser().eval(), torch.rand(2, 7, 4)
    done = trtsmith.convert(module, (x,), output=tmp_path / "net.plan", dynamic_shapes=lengths)
    assert done.passed and any("older exporter" in line for line in done.warnings)
    opened = open_model(TorchModule(module, (x,), {}, lengths))
    assert (opened.profile["x"].min, opened.profile["x"].max) == ((1, 1, 4), (4, 20, 4))
    longer = torch.rand(3, 11, 4)
    (found,) = run(opened.model, {"x": longer.numpy()}).values()
    np.testing.assert_allclose(found, module(longer).detach().numpy(), atol=1e-6)
