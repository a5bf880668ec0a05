"""Saved programs with sizes that values decide: nonzero, masks, unique, chosen boxes, and conditions on such sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

import trtsmith
from trtsmith.converter.convert.pytorch.program_archive import copy_checked


class Indices(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.nonzero(x > 0.5)


class Masked(nn.Module):
    def forward(self, x: Any) -> Any:
        low, high = x[x < 0.3], x[x > 0.5]
        return torch.cat([low, high]), torch.zeros(low.shape[0] + 2 * high.shape[0])


class Distinct(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.unique((x * 4).round())


class KeptBoxes(nn.Module):
    def forward(self, boxes: Any, scores: Any) -> Any:
        keep = torch.nonzero(scores > 0.4).squeeze(1)
        order = scores[keep].argsort(descending=True)[:3]
        return boxes[keep][order], scores[keep][order]


class ChosenRows(nn.Module):
    def forward(self, x: Any) -> Any:
        rows = torch.nonzero(x.flatten(1).sum(1) > 3).squeeze(1)
        return x[rows], rows


class Conditions(nn.Module):
    """Conditions of every kind: at least, at most, less, more, equal, unequal, both, either, and a remainder."""

    def forward(self, x: Any, count: Any, scale: Any) -> Any:
        n = count.item()
        torch._check(n >= 1)
        torch._check(n < 5)
        torch._check(n != 3)
        torch._check((n > 0) & (n <= 4))
        torch._check((n == 2) | (n == 4))
        kept = torch.nonzero(x.flatten() > -1).squeeze(1)
        torch._check(kept.shape[0] % 4 == 0)
        torch._check(kept.shape[0] == 12)
        return x.flatten()[:n] * scale.item(), kept.reshape(kept.shape[0] // 4, 4)


class Enlarged(nn.Module):
    """A size that is computed in floating point."""

    def forward(self, x: Any) -> Any:
        return nn.functional.interpolate(x, scale_factor=1.5)


def values(*shape: int) -> Any:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(1))


PROGRAMS: dict[str, tuple[nn.Module, tuple[Any, ...], Any]] = {
    "nonzero": (Indices(), (values(3, 4),), None),
    "masks": (Masked(), (values(3, 4),), None),
    "unique": (Distinct(), (values(8),), None),
    "kept boxes": (KeptBoxes(), (values(12, 4), values(12)), None),
    "dynamic batch": (ChosenRows(), (values(4, 2, 3),), ({0: Dim("batch", min=1, max=8)},)),
    "conditions": (Conditions(), (values(3, 4), torch.tensor(2), torch.tensor(1.5)), None),
    "float size": (Enlarged(), (values(1, 2, 4, 6),), ({2: Dim("height", min=2, max=9)},)),
}


def saved(name: str, path: Path) -> Path:
    module, args, shapes = PROGRAMS[name]
    torch.export.save(torch.export.export(module, args, dynamic_shapes=shapes, strict=False), path)
    return path


@pytest.mark.parametrize("name", PROGRAMS)
def test_saved_programs_with_data_dependent_sizes_convert(name: str, tmp_path: Path) -> None:
    copy_checked(saved(name, tmp_path / "program.pt2"), tmp_path / "copy.pt2")
    done = trtsmith.convert(torch.export.load(tmp_path / "copy.pt2"), output=tmp_path / "net.plan")
    assert done.passed and done.verdict is not None and done.verdict.status == "agree"


def test_the_process_that_loads_takes_such_a_program(tmp_path: Path) -> None:
    done = trtsmith.convert(saved("dynamic batch", tmp_path / "program.pt2"), tmp_path / "net.plan")
    assert done.passed and done.verdict is not None and done.verdict.status == "agree"
