"""Builds an engine of a network's file with TensorRT-RTX alone, in a worker."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx

from harness.jobs import run_jobs
from onnxcoverage.builder import Sizes, build_engine
from trtsmith.converter.base.options.shapes import parse_shapes


def native_outcome(
    path: Path, shapes: Sequence[str], frozen: Mapping[str, str], limit_s: float
) -> dict[str, Any]:
    """outcome: "builds", TensorRT's first error, or how its process ended; bytes: of the engine."""
    job = json.dumps([str(path), shapes, frozen])
    ((_, finding),) = run_jobs(__name__, deque([job]), 1, limit_s, path.parent)
    return finding.found or {"outcome": finding.died, "bytes": 0}


def work(job: str, folder: Path) -> dict[str, Any]:
    path, shapes, frozen = json.loads(job)
    proto = onnx.load(path, load_external_data=False)
    built = build_engine(Path(path), profile_of(proto, shapes, frozen))
    return {"outcome": built.reason or "builds", "bytes": len(built.engine)}


def profile_of(proto: onnx.ModelProto, shapes: Sequence[str], frozen: Mapping[str, str]) -> dict[str, Sizes]:
    """The shapes for `trtsmith convert` as TensorRT's profile. A frozen input, a number, has its value."""
    given = {name: Sizes((r.min, r.opt, r.max)) for name, r in parse_shapes(shapes).items()}
    inner = {tensor.name for tensor in proto.graph.initializer}
    for value in proto.graph.input:
        shape = tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
        if value.name in frozen:
            given[value.name] = Sizes((shape,) * 3, ((int(frozen[value.name]),),) * 3)
        elif value.name not in inner:
            given.setdefault(value.name, Sizes((shape,) * 3))
    return given
