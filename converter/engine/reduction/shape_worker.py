"""Child side: runs a model in onnxruntime to find sizes that shape inference could not."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from trtsmith.converter.engine.child.events import Events
from trtsmith.converter.engine.child.serve import serve
from trtsmith.converter.graph.fresh_names import FreshNames
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.rewrite import runnable

SHAPE_WORKER = "trtsmith.converter.engine.reduction.shape_worker"


def main(request_json: str, events: Events, log_path: Path) -> dict[str, Any]:
    """Returns {"shapes": for each corner the sizes by name}. Asked with "model", "corners", "values" (names of inputs),
    "names".
    """
    del events, log_path
    asked = json.loads(request_json)
    model = runnable(load_model(Path(asked["model"])))
    marked, shapes = with_shapes(model, asked["names"])
    found = []
    for corner in asked["corners"]:
        feeds = dict(_feeds(marked.proto, corner, asked["values"]))
        made = run(marked, feeds, optimise=False)
        found.append({name: [int(size) for size in made[shape]] for name, shape in shapes.items()})
    return {"shapes": found}


def with_shapes(model: Model, names: Iterable[str]) -> tuple[Model, dict[str, str]]:
    """Makes the shapes of these values the model's outputs. Returns it, and by value the name of its shape."""
    proto = model.copied()
    fresh = FreshNames.of(proto)
    have = {name for node in proto.graph.node for name in node.output}
    have |= {one.name for one in (*proto.graph.input, *proto.graph.initializer)}
    shapes = {}
    del proto.graph.output[:]
    for name in names:
        if name in have:
            shapes[name] = fresh.value(f"{name}/shape")
            proto.graph.node.append(helper.make_node("Shape", [name], [shapes[name]]))
            proto.graph.output.append(
                helper.make_tensor_value_info(shapes[name], onnx.TensorProto.INT64, None)
            )
    return model.with_proto(proto), shapes


def _feeds(
    proto: onnx.ModelProto, corner: Mapping[str, Sequence[int]], values: Sequence[str]
) -> list[tuple[str, np.ndarray]]:
    held = {tensor.name for tensor in proto.graph.initializer}
    feeds = []
    for value in proto.graph.input:
        if value.name in held:
            continue
        kind = value.type.tensor_type
        dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
        dims = [dim.dim_value for dim in kind.shape.dim]
        given = corner.get(value.name)
        if given is not None and value.name in values:
            feeds.append((value.name, np.array(given if dims else given[0], dtype)))
        else:
            feeds.append((value.name, np.zeros(dims if given is None else given, dtype)))
    return feeds


if __name__ == "__main__":
    serve(sys.argv[1:], main)
