"""Finds the node that an operator is drafted from, and the types and shapes at its ports."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.graph.infer import value_types
from trtsmith.converter.graph.walk import all_graphs
from trtsmith.converter.rewrite.native_operators import native_operators
from trtsmith.importers.dtypes import dtype_name
from trtsmith.importers.registry import find_aliases, normalise_domain


@dataclass(frozen=True)
class ModelNode:
    """A node with the types of its values. dims: a number or a name for each dimension, None if unknown."""

    proto: onnx.NodeProto
    where: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    dtypes: Mapping[str, str]
    dims: Mapping[str, tuple[int | str, ...] | None]


def find_node(proto: onnx.ModelProto, wanted: str, path: Path) -> onnx.NodeProto:
    """Finds the node of that name, or with that output, or the only one of that op_type. UsageError if its operator is
    known.
    """
    nodes = [node for graph in all_graphs(proto.graph) for node in graph.node]
    found: list[onnx.NodeProto] = next(
        (
            same
            for same in (
                [n for n in nodes if n.name == wanted],
                [n for n in nodes if wanted in n.output],
                [n for n in nodes if n.op_type == wanted],
            )
            if same
        ),
        [],
    )
    where = f"{path}, --node {wanted}"
    unknown = [n for n in nodes if _nobody_knows(n)]
    names = [n.name or next(filter(None, n.output), "") for n in unknown[:8]]
    listed = ", ".join(f"{name} ({n.op_type})" for name, n in zip(names, unknown, strict=False))
    listed = listed or "none in this model"
    if len(found) != 1:
        what = "there is no such node" if not found else f"{len(found)} nodes have this name"
        chosen = [name for name, n in zip(names, unknown, strict=False) if n in found] or names
        fix = f"--node {shlex.quote(chosen[0])}" if chosen else "name a model with a node that nothing knows"
        raise UsageError(what, where, f"an unknown node: {listed}", fix)
    if not _nobody_knows(found[0]):
        raise UsageError(
            f"trtsmith knows {found[0].op_type}: it needs no operator of your own",
            where,
            f"an unknown node: {listed}",
            "trtsmith check shows how each node of the model reaches TensorRT",
        )
    return found[0]


def _nobody_knows(node: onnx.NodeProto) -> bool:
    domain = normalise_domain(node.domain)
    return not (
        domain == "" and (onnx.defs.has(node.op_type) or node.op_type in native_operators())
    ) and not (find_aliases(domain, node.op_type))


def described(proto: onnx.ModelProto, node: onnx.NodeProto, path: Path) -> ModelNode:
    """Describes the node with the types of its values. UsageError if the model does not give those of its inputs."""
    where = f"{path}, node {node.name!r} ({node.op_type})"
    inputs, outputs = list(node.input), list(node.output)
    while inputs and not inputs[-1]:
        inputs.pop()
    if not all(inputs) or not any(outputs):
        raise UsageError(
            "an optional input before the last one is missing" if any(outputs) else "no output is used",
            where,
            "a node whose missing inputs are the last ones",
            "write the operator by hand: trtsmith op new without --from-model",
        )
    outputs = [name for name in outputs if name]
    types = value_types(proto, {*inputs, *outputs})
    dtypes = {
        name: dtype_name(t.elem_type)
        for name, t in types.items()
        if t.elem_type != onnx.TensorProto.UNDEFINED
    }
    for name in inputs:
        if name not in types or not types[name].HasField("shape"):
            raise UsageError(
                f"the model does not declare the type and rank of {name!r}",
                where,
                "types of all inputs: shape inference stops at unknown operators",
                f"begin with the first such node, then name its package with --ops; or add a value_info of {name!r}",
            )
    first = next((dtypes[name] for name in inputs if name in dtypes), "float32")
    for name in outputs:
        dtypes.setdefault(name, first)  # shown on the terminal: the model does not say
    dims = {
        name: tuple(
            d.dim_value if d.HasField("dim_value") else d.dim_param or "" for d in types[name].shape.dim
        )
        if name in types and types[name].HasField("shape")
        else None
        for name in (*inputs, *outputs)
    }
    return ModelNode(node, where, tuple(inputs), tuple(outputs), dtypes, dims)


def numbers(node: ModelNode, value: str) -> tuple[int, ...]:
    """Chooses start sizes: the model's, and a distinct size for each named dimension."""
    every = [d for name in node.inputs for d in (node.dims[name] or ())]
    known = {d for d in every if isinstance(d, int)}
    free = iter(size for size in range(3, 10_000) if size not in known)
    chosen = {d: next(free) for d in dict.fromkeys(d for d in every if isinstance(d, str) and d)}
    own = dict(enumerate(free)) if "" in every else {}
    return tuple(
        d if isinstance(d, int) else chosen.get(d) or own[axis]
        for axis, d in enumerate(node.dims[value] or ())
    )
