"""Derives the reference, the PyTorch reference and the expansion from an operator's geometry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from trtsmith.importers.opdef import Arrays, Body, Expansion, Fields, OpDef, Port
from trtsmith.importers.ops.regions._region_geometry import Geometry, sampling_work, shape
from trtsmith.importers.ops.regions._region_onnx import expand_regions
from trtsmith.importers.ops.regions._region_reference import pool_regions
from trtsmith.importers.ops.regions._region_torch import pool_regions_torch

LEVELS = 8
"""Levels at most: as many inputs have names."""

MAPS = tuple(f"x{i}" for i in range(LEVELS))


def maps(tensors: Mapping[str, Any]) -> list[Any]:
    """Returns the features: one map, or those of the levels in order."""
    return [tensors[name] for name in ("x", *MAPS) if name in tensors]


@dataclass(frozen=True)
class Pooling:
    """The pooling of regions `rois` from the map `x`, or from maps `x0` and on. `offset`, if any, moves the bins."""

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


def pooling_operator(geometry: Callable[[Fields], Geometry], **parts: Any) -> OpDef:
    """Defines an operator that differs from RoI align in its geometry. parts: of its OpDef, beside the shared ones."""
    pooling = Pooling(geometry)
    shared: dict[str, Any] = {
        "outputs": (Port("output", "T", 4, "[K, C, output_height, output_width]"),),
        "shape": shape,
        "reference": pooling.reference,
        "torch_reference": pooling.torch_reference,
        "expand": pooling.expand,
        "tolerance": {"float32": 2e-6, "float16": 1e-3, "bfloat16": 8e-3},
        "work": sampling_work,
        "workspace": True,
    }
    return OpDef(**shared | parts)
