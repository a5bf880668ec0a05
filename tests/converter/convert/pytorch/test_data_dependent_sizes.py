"""Saved programs with data-dependent sizes: nonzero, masks, unique, selected boxes, and conditions on such sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

import trtsmith
from tests.converter.convert.pytorch.modules import made_of
from trtsmith.converter.convert.pytorch.program_archive import copy_checked


def masked(self: Any, x: Any) -> Any:
    low, high = x[x < 0.3], x[x > 0.5]
    return torch.cat([low, high]), torch.zeros(low.shape[0] + 2 * high.shape[0])


def kept_boxes(self: Any, boxes: Any, scores: Any) -> Any:
    keep = torch.nonzero(scores > 0.4).squeeze(1)
    order = scores[keep].argsort(descending=True)[:3]
    return boxes[keep][order], scores[keep][order]


def chosen_rows(self: Any, x: Any) -> Any:
    rows = torch.nonzero(x.flatten(1).sum(1) > 3).squeeze(1)
    return x[rows], rows


def conditions(self: Any, x: Any, count: Any, scale: Any) -> Any:
    """Conditions of every kind: at least, at most, less, more, equal, unequal, both, either, and a remainder."""
    n = count.item()
    for condition in (n >= 1, n < 5, n != 3, (n > 0) & (n <= 4), (n == 2) | (n == 4)):
        torch._check(condition)
    kept = torch.nonzero(x.flatten() > -1).squeeze(1)
    torch._check(kept.shape[0] % 4 == 0)
    torch._check(kept.shape[0] == 12)
    return x.flatten()[:n] * scale.item(), kept.reshape(kept.shape[0] // 4, 4)


def values(*shape: int) -> Any:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(1))


PROGRAMS: dict[str, tuple[Any, tuple[Any, ...], Any]] = {
    "nonzero": (lambda self, x: torch.nonzero(x > 0.5), (values(3, 4),), None),
    "masks": (masked, (values(3, 4),), None),
    "unique": (lambda self, x: torch.unique((x * 4).round()), (values(8),), None),
    "kept boxes": (kept_boxes, (values(12, 4), values(12)), None),
    "dynamic batch": (chosen_rows, (values(4, 2, 3),), ({0: Dim("batch", min=1, max=8)},)),
    "conditions": (conditions, (values(3, 4), torch.tensor(2), torch.tensor(1.5)), None),
    "float size": (  # computed in floating point
        lambda self, x: nn.functional.interpolate(x, scale_factor=1.5),
        (values(1, 2, 4, 6),),
        ({2: Dim("height", min=2, max=9)},),
    ),
}


def saved(name: str, path: Path) -> Path:
    forward, args, shapes = PROGRAMS[name]
    program = torch.export.export(made_of(forward), args, dynamic_shapes=shapes, strict=False)
    torch.export.save(program, path)
    return path


@pytest.mark.parametrize("name", PROGRAMS)
def test_saved_programs_with_data_dependent_sizes_convert(name: str, tmp_path: Path) -> None:
    copy_checked(saved(name, tmp_path / "program.pt2"), tmp_path / "copy.pt2")
    done = trtsmith.convert(torch.export.load(tmp_path / "copy.pt2"), output=tmp_path / "net.plan")
    assert done.passed and done.verdict is not None and done.verdict.status == "agree"


@pytest.mark.usefixtures("forked_workers")
def test_the_process_that_loads_takes_such_a_program(tmp_path: Path) -> None:
    done = trtsmith.convert(saved("dynamic batch", tmp_path / "program.pt2"), tmp_path / "net.plan")
    assert done.passed and done.verdict is not None and done.verdict.status == "agree"
