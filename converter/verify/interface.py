"""Compares an engine's inputs and outputs with those of a model: names, element types, ranks and fixed sizes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

import onnx

from trtsmith.converter.engine.runtime.tensors import EngineInfo, TensorSpec
from trtsmith.converter.graph.walk import all_graphs
from trtsmith.converter.model.errors import UsageError
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.shapes import InputSpec, graph_inputs
from trtsmith.converter.rewrite.types import IoType
from trtsmith.importers.dtypes import dtype_name
from trtsmith.importers.problem import Problem

_FIX = (
    "give the model that the engine was built from, or convert this one again; "
    "keep the manifest beside the engine, which says what was frozen or cast"
)


def check_interface(
    model: Model, engine: Path, info: EngineInfo, io_types: Iterable[IoType], frozen: Collection[str]
) -> None:
    """UsageError lists everything in which the two differ, but for what the manifest says was frozen or cast."""
    after = {io.name: io.after for io in io_types}
    specs = [spec for spec in graph_inputs(model.proto) if spec.name not in frozen]
    outputs = [_output(value) for value in model.proto.graph.output]
    unread = {spec.name for spec in specs} - _read(model)
    found = (
        *_differences("input", specs, info.inputs, after, unread),
        *_differences("output", outputs, info.outputs, after, frozenset()),
    )
    problems = [Problem(what, str(engine), expected, _FIX) for what, expected in found]
    if problems:
        raise UsageError(problems)


def _output(value: onnx.ValueInfoProto) -> InputSpec:
    """Sizes of outputs are not compared: they follow from the inputs."""
    tensor = value.type.tensor_type
    return InputSpec(value.name, dtype_name(tensor.elem_type) if tensor.elem_type else "", (), ())


def _read(model: Model) -> set[str]:
    """Values that some node reads, or that are outputs."""
    graphs = list(all_graphs(model.proto.graph))
    read = {name for graph in graphs for node in graph.node for name in node.input}
    return read | {value.name for graph in graphs for value in graph.output}


def _differences(
    kind: str,
    model: Iterable[InputSpec],
    engine: Iterable[TensorSpec],
    after: Mapping[str, str],
    optional: Collection[str],
) -> Iterator[tuple[str, str]]:
    """(what is wrong, what was expected)"""
    wanted, have = {spec.name: spec for spec in model}, {spec.name: spec for spec in engine}
    names = f"the model's {kind}s: " + (", ".join(map(repr, wanted)) or "none")
    for name, spec in wanted.items():
        tensor = have.get(name)
        if tensor is None:
            if name not in optional:
                yield f"the engine has no {kind} {name!r}", names
            continue
        dtype = after.get(name, spec.dtype)
        if dtype and tensor.dtype != dtype:
            yield f"{kind} {name!r} is {tensor.dtype} in the engine", dtype
        elif kind == "input" and not _fits(spec.shape, tensor.shape):
            dims = ", ".join("?" if size is None else str(size) for size in spec.shape)
            yield f"input {name!r} is {tensor} in the engine", f"{dtype}[{dims}]"
    for name in have:
        if name not in wanted:
            yield f"the engine has an {kind} {name!r}, which the model has not", names


def _fits(model: tuple[int | None, ...], engine: tuple[int, ...]) -> bool:
    """A dynamic size of the model may be fixed in the engine; a fixed one may not be dynamic or another."""
    if len(model) != len(engine):
        return False
    return all(size is None or size == there for size, there in zip(model, engine, strict=True))
