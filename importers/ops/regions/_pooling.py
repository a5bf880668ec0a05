"""Derives from an operator's geometry what it computes: the reference, the PyTorch reference and the expansion."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from trtsmith.importers.opdef import Arrays, Body, Expansion, Fields
from trtsmith.importers.ops.regions._region_geometry import Geometry
from trtsmith.importers.ops.regions._region_onnx import expand_regions
from trtsmith.importers.ops.regions._region_reference import pool_regions
from trtsmith.importers.ops.regions._region_torch import pool_regions_torch

LEVELS = 8
"""Levels at most: as many inputs have names."""

MAPS = tuple(f"x{i}" for i in range(LEVELS))


def maps(tensors: Mapping[str, Any]) -> list[Any]:
    """The features: one map, or those of the levels in order."""
    return [tensors[name] for name in ("x", *MAPS) if name in tensors]


@dataclass(frozen=True)
class Pooling:
    """Regions `rois` of the map `x` or of maps `x0` and on, with bins moved by `offset` where there is one."""

    geometry: Callable[[Fields], Geometry]

    def reference(self, fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
        geometry = self.geometry(fields)
        return {"output": pool_regions(maps(inputs), inputs["rois"], geometry, inputs.get("offset"))}

    def torch_reference(self, fields: Fields, inputs: Mapping[str, Any]) -> tuple[Any]:
        geometry = self.geometry(fields)
        return (pool_regions_torch(maps(inputs), inputs["rois"], geometry, inputs.get("offset")),)

    def expand(self, expansion: Expansion) -> Body:
        present = {name: name for name in expansion.present}
        geometry = self.geometry(expansion.fields)
        return expand_regions(geometry, maps(present), "rois", expansion.opset, present.get("offset", ""))
