"""Unique by its plugin: shapes that it does not take."""

from __future__ import annotations

from tests.importers.foreign.model import Inconsistent

FIELDS = {"axis": 1, "sorted": 1}
INCONSISTENT = (
    Inconsistent("UniqueSlices", {"x": (3, 4)}, {"x": (4,)}, "axis = 1, but x has 1 dim", FIELDS),
    Inconsistent("UniqueSlices", {"x": (3, 4)}, {}, "axis = -3, but x has 2", FIELDS, {"axis": -3}),
)
