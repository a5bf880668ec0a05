"""Suggests freezing inputs if TensorRT refuses a model: those that select an If's branch, and floats that set sizes."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import onnx

from trtsmith.converter.base.errors import BuildRefused
from trtsmith.converter.graph.constant_nodes import constant_value
from trtsmith.converter.graph.walk import all_graphs
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.freeze import FLOAT_TYPES, example_flag, inputs_to_freeze
from trtsmith.importers.dtypes import numpy_dtype
from trtsmith.importers.registry import normalise_domain

_OF_SIZES = frozenset({"Shape", "Size"})
"""Behind these a value says nothing any more."""


@dataclass(frozen=True)
class BranchInput:
    """An input that decides the condition of the If `branching`, or a float that decides sizes (branching is "").

    compared: with what the condition compares it, if that is known.
    """

    name: str
    branching: str
    compared: np.ndarray | None


def branch_inputs(model: Model) -> tuple[BranchInput, ...]:
    """Returns the single-element inputs that decide conditions of Ifs, and the floats that decide sizes, each once."""
    nodes = [node for graph in all_graphs(model.proto.graph) for node in graph.node]
    makers = {name: node for node in nodes for name in node.output}
    inputs = {value.name for value in model.proto.graph.input if _is_single(value)}
    inputs -= {tensor.name for tensor in model.proto.graph.initializer}
    floats = {v.name for v in model.proto.graph.input if v.type.tensor_type.elem_type in FLOAT_TYPES}
    found = {
        name: BranchInput(name, "", None)
        for name in sorted(floats & inputs_to_freeze(model.proto, deciding=False))
    }
    for node in nodes:
        if node.op_type == "If" and not normalise_domain(node.domain):
            for name, compared in _reached(node.input[0], makers, inputs, model):
                if name not in found or found[name].compared is None:
                    found[name] = BranchInput(name, node.name or node.output[0], compared)
    return tuple(found.values())


def offer_freezing(
    error: BuildRefused,
    model: Model,
    examples: Mapping[str, np.ndarray],
    frozen: Mapping[str, np.ndarray],
    builds: Callable[[Mapping[str, np.ndarray]], bool],
) -> BuildRefused:
    """Returns the refusal, with --freeze flags added if the model has such inputs and builds with them frozen.

    examples: values by input; else what the graph compares the input with. frozen: inputs that are constants already.
    """
    deciding = {one.name: one for one in branch_inputs(model) if one.name not in frozen}
    values = {
        name: value
        for name, one in deciding.items()
        if (value := examples.get(name, one.compared)) is not None
    }
    if not deciding or (values and not builds(values)):
        return error
    inputs = {value.name: value for value in model.proto.graph.input}
    names = ", ".join(map(repr, values or deciding))
    branching = next((one.branching for one in deciding.values() if one.branching), "")
    what = f"the branch of the If {branching!r} depends" if branching else "sizes depend"
    at = f"{what} on the input {names}"
    if values:
        flags = " ".join(f"--freeze {shlex.quote(freeze_text(*item))}" for item in values.items())
        fix = f"{flags}: {at}, and TensorRT builds the model with this value"
    else:
        texts = (
            example_flag(inputs[name]) if one.branching else shlex.quote(f"{name}=VALUE")
            for name, one in deciding.items()
        )
        fix = f"--freeze {' --freeze '.join(texts)} (with your own value): {at}"
    if any(not one.branching for one in deciding.values()):
        fix += (
            ", a float; if it holds whole numbers, declare it as int64 where the model is exported: then --values gives a "
            "range of them"
        )
    first, *others = error.problems
    return BuildRefused((replace(first, fix=f"{fix}; else {first.fix}"), *others))


def freeze_text(name: str, value: np.ndarray) -> str:
    """Writes NAME=VALUE in the form of --freeze."""
    return f"{name}={json.dumps(value.tolist(), separators=(',', ':'))}"


def _is_single(value: onnx.ValueInfoProto) -> bool:
    type_ = value.type.tensor_type
    dims = type_.shape.dim
    return (
        type_.elem_type not in (0, onnx.TensorProto.STRING)
        and numpy_dtype(type_.elem_type).kind in "iub"
        and (len(dims) == 0 or (len(dims) == 1 and dims[0].dim_value == 1))
    )


def _reached(
    condition: str, makers: Mapping[str, onnx.NodeProto], inputs: set[str], model: Model
) -> Iterator[tuple[str, np.ndarray | None]]:
    """The inputs that the condition depends on, each with the constant with which a branch compares it."""
    queue, seen = [condition], set[str]()
    while queue:
        name = queue.pop()
        if name in inputs:
            yield name, None
        node = makers.get(name)
        if name in seen or node is None or node.op_type in _OF_SIZES:
            continue
        seen.add(name)
        if node.op_type == "Equal":
            for one, other in (node.input, reversed(node.input)):
                constant = _constant(other, makers, model)
                if one in inputs and constant is not None:
                    yield one, constant
        queue.extend(node.input)


def _constant(name: str, makers: Mapping[str, onnx.NodeProto], model: Model) -> np.ndarray | None:
    tensor = next((t for t in model.proto.graph.initializer if t.name == name), None)
    if tensor is not None:
        return model.array(tensor)
    return constant_value(makers[name], model) if name in makers else None
