"""Modules that need more than torch.onnx.export at its first try."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import nn
from torch.export import Dim

import trtsmith
from trtsmith.converter.convert.pytorch import onnx_program
from trtsmith.converter.convert.pytorch.aten_rules import RULES


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
