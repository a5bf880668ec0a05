"""Child: runs export programs with random weights in a Python that has the libraries; writes each file and its inputs.

A request is the two parts of a program, the folder and the axes of the inputs; line_child.py brings it and the answer.
"""

from __future__ import annotations

import os
import time
import traceback
import warnings
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from harness.line_child import answer_lines
from popularnetworks.drawn_weights import draw, fill_graph, fill_module, mark_weights

FILE = "model.onnx"
SAMPLES = "inputs.npz"


def export(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The result of a request: package, opset, nodes, dynamic axes and their shapes; `export` is the cause of a failure."""
    os.chdir(asked["folder"])
    answer = {**_package(asked["library"]), "torch": metadata.version("torch").partition("+")[0]}
    began = time.monotonic()
    try:
        names: dict[str, Any] = {}
        exec(asked["program"][0], names)
        fill_module(names["model"])
        exec(asked["program"][1], names)
        answer |= _finish(Path(names.get("path", FILE)), asked["inputs"])
        answer |= {"export": "", "export_seconds": round(time.monotonic() - began, 1)}
    except Exception as error:
        traceback.print_exc()
        answer["export"] = _cause(error)
    return answer


def _package(library: str) -> dict[str, Any]:
    """The library's version, and its stated licence."""
    about: Any = metadata.metadata(library)
    stated = about.get("License-Expression") or " ".join((about.get("License") or "").split())
    kinds = [
        line.rpartition(" :: ")[2] for line in about.get_all("Classifier") or () if line.startswith("License")
    ]
    licence = stated if 0 < len(stated) < 40 and stated != "UNKNOWN" else ", ".join(kinds)
    return {"version": about["Version"], "licence": licence or "not stated"}


def _finish(path: Path, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Draws the graph's weights, saves it with sample inputs, and returns its facts."""
    proto = onnx.load(path)
    mark_weights(proto)
    fill_graph(proto)
    onnx.save(proto, FILE)
    inner = {tensor.name for tensor in proto.graph.initializer}
    values = [value for value in proto.graph.input if value.name not in inner]
    spare = iter(inputs.values())
    shapes, dynamic, samples = [], dict[str, None](), {}
    for value in values:
        axes, what = inputs[value.name] if value.name in inputs else next(spare)
        dims = value.type.tensor_type.shape.dim
        ranges = [
            profile if not dim.HasField("dim_value") else [size] * 3
            for dim, (_, size, profile) in zip(dims, axes, strict=True)
        ]
        if any(not dim.HasField("dim_value") for dim in dims):
            sizes = ("x".join(str(profile[i]) for profile in ranges) for i in range(3))
            shapes.append(f"{value.name}={':'.join(sizes)}")
        dynamic |= {
            name: None
            for dim, (name, _, _) in zip(dims, axes, strict=True)
            if name and not dim.HasField("dim_value")
        }
        samples[value.name] = _sample(value, [size for _, size, _ in axes], what)
    np.savez(SAMPLES, allow_pickle=False, **samples)
    opset = next(o.version for o in proto.opset_import if o.domain in ("", "ai.onnx"))
    return {"opset": opset, "nodes": _nodes(proto), "dynamic": list(dynamic), "shapes": shapes}


def _sample(value: onnx.ValueInfoProto, shape: Sequence[int], what: str) -> np.ndarray:
    dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
    uniform = draw(value.name, tuple(shape)) % 1
    if what[:1] == "<":
        return (uniform * int(what[1:])).astype(dtype)
    return np.full(shape, int(what[1:]) if what[:1] == "=" else 1, dtype) if what else uniform.astype(dtype)


def _nodes(proto: onnx.ModelProto) -> int:
    """The number of nodes in the graph and in the functions that it calls."""
    return len(proto.graph.node) + sum(len(function.node) for function in proto.functions)


def _cause(error: BaseException) -> str:
    """The most telling line of the root error, as PyTorch wraps causes."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    answer_lines(lambda: export)
