"""Asks TensorRT-RTX alone for an engine of a file: `python -m realmodels.native_outcome REQUEST` with a JSON of both."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx

from gpucheck.processes import run_boxed
from onnxcoverage.builder import Sizes, build_engine
from realmodels.real_model import RealModel

ROOT = Path(__file__).resolve().parents[2]


def native_outcome(model: RealModel, path: Path, limit_s: float) -> dict[str, Any]:
    """outcome: "builds", or TensorRT's first error, or how its process ended; bytes: of the engine. In a child process."""
    request, answer = path.with_suffix(".native.json"), path.with_suffix(".answer.json")
    request.write_text(
        json.dumps(
            {"path": str(path), "shapes": model.shapes, "frozen": model.frozen(), "answer": str(answer)}
        )
    )
    answer.unlink(missing_ok=True)
    done = run_boxed(
        [sys.executable, "-m", "realmodels.native_outcome", str(request)], limit_s, ROOT / "scripts"
    )
    if not answer.exists():
        return {"outcome": done.problem or "no answer", "bytes": 0}
    found: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
    return found


def profile_of(proto: onnx.ModelProto, shapes: list[str], frozen: Mapping[str, str]) -> dict[str, Sizes]:
    """What `trtsmith convert` is told, as TensorRT's profile takes it. A frozen input, a number, has that value."""
    given = {}
    for spec in shapes:
        name, _, text = spec.rpartition("=")
        parts = [tuple(int(size) for size in part.split("x")) for part in text.split(":")]
        low, best, high = parts if len(parts) == 3 else parts * 3
        given[name] = Sizes((low, best, high))
    inner = {tensor.name for tensor in proto.graph.initializer}
    for value in proto.graph.input:
        shape = tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
        if value.name in frozen:
            given[value.name] = Sizes((shape,) * 3, ((int(frozen[value.name]),),) * 3)
        elif value.name not in inner:
            given.setdefault(value.name, Sizes((shape,) * 3))
    return given


def main(request: str) -> None:
    asked = json.loads(Path(request).read_text(encoding="utf-8"))
    path = Path(asked["path"])
    proto = onnx.load(path, load_external_data=False)
    built = build_engine(path, profile_of(proto, asked["shapes"], asked["frozen"]))
    found = {"outcome": built.reason or "builds", "bytes": len(built.engine)}
    Path(asked["answer"]).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
