"""Writes a graph as an ONNX function body, with readable names and attributes to fill in later."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import onnx
from onnx import inliner

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.graph.renaming import rename_values
from trtsmith.converter.graph.walk import refill, subgraphs
from trtsmith.converter.scaffold.quoting import identifier

_REFERENCE = re.compile(r'"(?:[^"\\]|\\.)*"|(?P<name>\w+): \w+ = @(?P<field>\w+)', re.DOTALL)
"""A string, which is left alone, or an attribute whose value is the function's."""
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_LARGEST = 1 << 16
"""Elements of constants in a body: it is text in a Python file."""


def body_of_function(
    model: onnx.ModelProto, function: onnx.FunctionProto, inputs: Sequence[str], outputs: Sequence[str]
) -> tuple[str, int]:
    """Returns (text, opset) of a function of a model, with the functions that it calls inlined.

    inputs, outputs: names of the ports, in the function's order. An attribute of the function stands as @its_name@.
    UsageError if the body calls what is not an operator of ONNX, or cannot be written as text.
    """
    flat = _flattened(model, function)
    renamed = dict(zip(flat.input, inputs, strict=False))
    renamed |= dict(zip(flat.output, outputs, strict=False))
    opset = next((entry.version for entry in flat.opset_import if not entry.domain), 1)
    return body_text(flat.node, renamed), opset


def body_of_graph(model: onnx.ModelProto, inputs: Sequence[str], outputs: Sequence[str]) -> tuple[str, int]:
    """Returns (text, opset) of a whole model, whose initializers become constants."""
    if model.functions:
        model = inliner.inline_local_functions(model)
    graph, nodes = model.graph, []
    for tensor in graph.initializer:
        nodes.append(onnx.helper.make_node("Constant", [], [tensor.name], value=tensor))
    given = {tensor.name for tensor in graph.initializer}
    fed = [value.name for value in graph.input if value.name not in given]
    made = [value.name for value in graph.output]
    nodes += graph.node
    # An output that is an input, or another output, has no node of its own.
    produced = {name for node in nodes for name in node.output}
    renamed = dict(zip(fed, inputs, strict=True))
    for name, port in zip(made, outputs, strict=True):
        if name in produced and name not in renamed:
            renamed[name] = port
        else:
            nodes.append(onnx.helper.make_node("Identity", [name], [f"{port}__out"]))
            renamed[f"{port}__out"] = port
    opset = next((entry.version for entry in model.opset_import if not entry.domain), 1)
    return body_text(nodes, renamed), opset


def body_text(nodes: Iterable[onnx.NodeProto], ports: Mapping[str, str]) -> str:
    """Writes nodes in the syntax of onnx.parser, a line each. ports: the ports' names by the values' own."""
    taken = set(ports.values())
    names = dict(ports)

    def fresh(name: str) -> str:
        found = identifier(name, "value", taken)
        taken.add(found)
        return found

    lines = []
    for node in nodes:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        for inner in _all_nodes([copy]):
            _require_writable(inner)
        for name in copy.output:
            if name and name not in names:
                names[name] = fresh(name)
        rename_values(copy, names, fresh)
        for graph in [graph for inner in _all_nodes([copy]) for graph in subgraphs(inner)]:
            graph.name = "body"
            for value in (*graph.input, *graph.output):
                for dim in value.type.tensor_type.shape.dim:
                    dim.ClearField("dim_param")
        copy.ClearField("name")
        copy.ClearField("doc_string")
        del copy.metadata_props[:]
        for attribute in copy.attribute:
            attribute.ClearField("doc_string")
            if attribute.HasField("t"):
                attribute.t.ClearField("name")
        lines.append(_REFERENCE.sub(_with_placeholder, onnx.printer.to_text(copy)).strip())
    return "\n".join(lines)


def _with_placeholder(match: re.Match[str]) -> str:
    return match[0] if match["name"] is None else f"{match['name']} = @{match['field']}@"


def _flattened(model: onnx.ModelProto, function: onnx.FunctionProto) -> onnx.FunctionProto:
    """The function without calls of others: its body is a model of its own to onnx's inliner."""
    kinds = {(f.domain, f.name) for f in model.functions}
    flat = onnx.FunctionProto()
    flat.CopyFrom(function)
    for _ in range(len(kinds) + 1):
        if not any((node.domain, node.op_type) in kinds for node in _all_nodes(flat.node)):
            break
        graph = onnx.GraphProto(name="body", node=flat.node)
        graph.input.extend(onnx.ValueInfoProto(name=name) for name in flat.input)
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in flat.output)
        whole = onnx.ModelProto(ir_version=model.ir_version, graph=graph, functions=model.functions)
        whole.opset_import.extend(model.opset_import)
        inlined = inliner.inline_local_functions(whole)
        refill(flat.node, inlined.graph.node)
    return flat


def _all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """The nodes and those of their subgraphs."""
    for node in nodes:
        yield node
        for graph in subgraphs(node):
            yield from _all_nodes(graph.node)


def _require_writable(node: onnx.NodeProto) -> None:
    called = [node.op_type, *(attribute.name for attribute in node.attribute)]
    odd = next((name for name in called if not _NAME.fullmatch(name)), None)
    if odd is not None:
        raise UsageError(
            f"the body has an operator or an attribute with the name {odd!r}",
            f"node {node.name!r} of the body",
            "names of letters, digits and underscores, as ONNX has them",
            "write the operator by hand: trtsmith op new without --from-model and --from-torch",
        )
    if node.domain not in ("", "ai.onnx"):
        raise UsageError(
            f"the body calls {node.domain}::{node.op_type}",
            f"node {node.name!r} of the body",
            "only operators of ONNX",
            "write the operator by hand: trtsmith op new without --from-model and --from-torch",
        )
    for attribute in node.attribute:
        elements = 1
        for size in attribute.t.dims:
            elements *= size
        if elements > _LARGEST or attribute.t.data_location == onnx.TensorProto.EXTERNAL:
            raise UsageError(
                f"the body has a constant of {elements} elements",
                f"node {node.name!r} ({node.op_type}) of the body",
                f"constants of at most {_LARGEST} elements: weights are inputs of an operator",
                "make the weights inputs of the operator",
            )
