"""Checks before the conversion that the types of a model suit its operators, and names the node otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Any

import onnx

from trtsmith.converter.base.errors import InvalidModelError
from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.graph.infer import infer_shapes, infers_with_types
from trtsmith.converter.graph.node import Node
from trtsmith.converter.graph.scope import Scope
from trtsmith.converter.graph.shape_check import shape_problem
from trtsmith.converter.graph.walk import all_graphs, subgraphs
from trtsmith.converter.model.model import Model
from trtsmith.importers.counted import counted
from trtsmith.importers.dtypes import dtype_name, type_string
from trtsmith.importers.problem import Problem

_MOST = 50
_FIX = "insert a Cast in front of the node, or correct it where the model is exported"


def infer_sound(model: Model) -> Model | None:
    """Returns the model with inferred types; None if onnx finds a fault, and for nodes with subgraphs, which it does not
    check.
    """
    if any(True for node in model.proto.graph.node for _ in subgraphs(node)):
        return None
    return infers_with_types(model)


def infer_checked(model: Model) -> Model:
    """Returns the model with inferred types. Raises InvalidModelError with the nodes whose input types or shapes ONNX
    forbids.

    A type that a later opset of the operator takes is let through: exporters write such nodes, and TensorRT takes them.
    """
    sound = infers_with_types(model)
    inferred = sound or infer_shapes(model)
    draft = Graph(inferred)
    problems = list(islice(_problems(draft.root, str(model.path)), _MOST))
    # What the model states of values may be wrong, and its nodes right. Else one node is asked after the other.
    if sound is None and not problems and infers_with_types(_as_nodes_make_it(model)) is None:
        problems = list(islice(_shape_problems(draft.root, str(model.path)), _MOST))
    if problems:
        raise InvalidModelError(problems)
    return inferred


def _as_nodes_make_it(model: Model) -> Model:
    """The model without the shapes that it states of values between nodes, and of what graphs inside of nodes give."""
    proto = model.copied()
    for graph in all_graphs(proto.graph):
        del graph.value_info[:]
        if graph is not proto.graph:
            for output in graph.output:
                if output.type.HasField("tensor_type"):
                    output.type.tensor_type.ClearField("shape")
    return model.with_proto(proto)


def _problems(scope: Scope, file: str) -> Iterator[Problem]:
    for node in scope.nodes:
        if (node.domain, node.op_type) not in scope.whole.functions:
            yield from _node_problems(node, _where(node, file))
        for inner in node.scopes:
            yield from _problems(inner, file)


def _shape_problems(scope: Scope, file: str) -> Iterator[Problem]:
    for node in scope.nodes:
        schema = operator_schema(node.op_type, node.domain, scope.whole.opset(node.domain))
        if (
            schema is not None
            and not node.domain
            and node.kind not in scope.whole.functions
            and not node.scopes
        ):
            problem = shape_problem(node, schema, _where(node, file))
            if problem is not None:
                yield problem
        if node.op_type != "If":  # a branch that is never run with these sizes need not fit them
            for inner in node.scopes:
                yield from _shape_problems(inner, file)


def _where(node: Node, file: str) -> str:
    return f"{file}: node {(node.proto.name or ', '.join(node.outputs))[:200]!r} ({node.op_type})"


def _node_problems(node: Node, where: str) -> Iterator[Problem]:
    schema = operator_schema(node.op_type, node.domain, node.scope.whole.opset(node.domain))
    newest = operator_schema(node.op_type, node.domain, None)
    if schema is None or newest is None or node.domain:
        return
    count = len(node.inputs)
    if not schema.min_input <= count <= schema.max_input:
        wanted = counted(schema.min_input, "input") if schema.min_input == schema.max_input else (
            f"{schema.min_input} to {schema.max_input} inputs"
        )  # fmt: skip
        fix = "correct the node where the model is exported, or the model's opset"
        yield Problem(f"the node has {counted(count, 'input')}", where, f"{wanted} in this opset", fix)
        return
    bound: dict[str, tuple[str, int]] = {}  # type variable: the first input of it, and its type
    for index, name in enumerate(node.inputs):
        elem_type = node.scope.elem_type(name)
        if not elem_type:
            continue
        port = schema.inputs[min(index, len(schema.inputs) - 1)]
        said = f"input {name[:200]!r} (number {index}) is {dtype_name(elem_type)}"
        later = newest.inputs[min(index, len(newest.inputs) - 1)]
        if type_string(elem_type) not in {*port.types, *later.types}:
            allowed = sorted(t[7:-1] for t in port.types if t.startswith("tensor("))
            yield Problem(said, where, "one of " + ", ".join(allowed) if allowed else "no tensor", _FIX)
            return
        first, type_ = bound.setdefault(port.type_str, (name, elem_type))
        if type_ != elem_type and port.is_homogeneous:
            yield Problem(
                f"{said}, and input {first[:200]!r} is {dtype_name(type_)}", where, "one type for both", _FIX
            )
            return


@cache
def operator_schema(op_type: str, domain: str, version: int | None) -> Any:
    """Returns the schema of an operator in a version of its domain, or the newest; None if onnx has none."""
    try:
        if version is None:
            return onnx.defs.get_schema(op_type, domain=domain)
        return onnx.defs.get_schema(op_type, version, domain)
    except onnx.defs.SchemaError:
        return None
