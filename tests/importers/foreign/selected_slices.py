"""Compress by its plugin: shapes that it does not take."""

from __future__ import annotations

from tests.importers.foreign.model import Inconsistent

SHAPES = {"x": (3, 4), "condition": (4,)}
INCONSISTENT = (
    Inconsistent("SelectedSlices", SHAPES, {"x": (4,)}, "axis = 1, but x has 1 dim", {"axis": 1}),
    Inconsistent("SelectedSlices", SHAPES, {}, "axis = -3, but x has 2", {"axis": -2}, {"axis": -3}),
)
