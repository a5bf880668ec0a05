"""NonZero by its plugin: shapes that it does not take."""

from __future__ import annotations

from tests.importers.foreign.model import Inconsistent

INCONSISTENT = (Inconsistent("NonZeroPositions", {"x": (3,)}, {"x": ()}, "x has no dimensions"),)
