"""Expands plugin nodes into standard ONNX, for the reference in onnxruntime and for builds without the plugin."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

import onnx
from onnx import helper, inliner

from trtsmith.importers.builder import MOST_BYTES, MOST_NODES, TooLargeError, Value
from trtsmith.importers.dtypes import NUMBERS
from trtsmith.importers.fields import fields_of_node
from trtsmith.importers.lowering import parse_statements
from trtsmith.importers.opdef import PLUGIN_NAMESPACE, Expansion, OpDef
from trtsmith.importers.registry import OPS, by_name

MIN_OPSET = 11
"""Expansions use operators that mean the same from this opset on."""

ALLOWZERO_OPSET = 14
"""First opset whose Reshape can be told that 0 is a size; empty tensors need it."""

EXPANDED_DOMAIN = f"{PLUGIN_NAMESPACE}.expanded"


class ExpansionError(LookupError):
    """The expansion is impossible. expected, fix: as in a Problem."""

    def __init__(self, what: str, expected: str, fix: str) -> None:
        super().__init__(what)
        self.expected, self.fix = expected, fix


def expansion_function(op: OpDef, expansion: Expansion) -> onnx.FunctionProto:
    """Writes the operator as an ONNX function for these fields, connected inputs, dtype and opset.

    Our own bodies reshape to full sizes only, never with 0 for "the same"; those of users stay as they are written. Absent
    optional inputs are not inputs of the function. Inputs of T reach the body as float32 under their port's name and
    outputs of T leave it as float32; the function casts at its edges, as the kernel accumulates in float32.
    """
    inputs = [port.name for port in op.inputs if port.name in expansion.present]
    nodes, outputs = _body(op, expansion)
    if expansion.dtype != "float32" and op.key == "T":
        for index, name in enumerate(inputs):
            if op.port(name).type == "T":
                inputs[index] = f"{name}_given"
                nodes.insert(0, helper.make_node("Cast", [inputs[index]], [name], to=NUMBERS["float32"]))
        for index, port in enumerate(op.outputs):
            if port.type == "T":
                wide, outputs[index] = outputs[index], f"{outputs[index]}_narrow"
                cast = helper.make_node("Cast", [wide], [outputs[index]], to=NUMBERS[expansion.dtype])
                nodes.append(cast)
    imports = [helper.make_opsetid("", expansion.opset)]
    name = _function_name(op, expansion)
    function = helper.make_function(EXPANDED_DOMAIN, name, inputs, outputs, nodes, imports)
    if op in OPS and expansion.opset >= ALLOWZERO_OPSET:  # a computed size of 0 means 0: empty tensors work
        for node in function.node:
            if node.op_type == "Reshape" and all(a.name != "allowzero" for a in node.attribute):
                node.attribute.append(helper.make_attribute("allowzero", 1))
    return function


def _function_name(op: OpDef, expansion: Expansion) -> str:
    """Equal for equal expansions alone."""
    key = repr(
        (sorted(expansion.fields.items()), sorted(expansion.present), expansion.dtype, expansion.opset)
    )
    return f"{op.name}_{hashlib.sha256(key.encode()).hexdigest()[:8]}"


def _body(op: OpDef, expansion: Expansion) -> tuple[list[onnx.NodeProto], list[str]]:
    """The nodes of the expansion, and the names of the operator's outputs."""
    try:
        body = op.expand(expansion)
    except TooLargeError as error:
        fields = ", ".join(f"{name} = {value}" for name, value in expansion.fields.items())
        raise _too_many(f"{op.name} with {fields} takes {error}") from error
    if isinstance(body, str):
        return parse_statements(body, expansion.opset), [port.name for port in op.outputs]
    values = [body] if isinstance(body, Value) else body
    builder = values[0].builder
    names = [value.name for value in builder.distinct(values)]
    return builder.nodes, names


def _too_many(what: str) -> ExpansionError:
    expected = f"expansions of {MOST_NODES:,} nodes and {MOST_BYTES >> 20} MiB of constants at most"
    return ExpansionError(what, expected, "correct the node's attributes; a plugin needs no expansion")


def expand_model(model: onnx.ModelProto, dtypes: Mapping[str, str]) -> onnx.ModelProto:
    """Copies the model with every trtsmith plugin node expanded into standard operators.

    dtypes: element type by value name (at least of the plugin nodes' first inputs); float32 where unknown.
    Nodes of other domains stay as they are. ExpansionError: the model's opset is older than expansions can be written in,
    or they would have more than MOST_NODES.
    """
    expanded, functions = with_functions(model, dtypes)
    if not functions:
        return expanded
    kept = [o for o in expanded.opset_import if o.domain not in (PLUGIN_NAMESPACE, EXPANDED_DOMAIN)]
    # Of any opset: the inliner takes functions of the model's alone.
    del expanded.functions[: len(model.functions)]
    inlined = inliner.inline_selected_functions(expanded, [(EXPANDED_DOMAIN, name) for name in functions])
    inlined.functions.extend(model.functions)
    del inlined.opset_import[:]
    inlined.opset_import.extend(kept)
    return inlined


def with_functions(
    model: onnx.ModelProto, dtypes: Mapping[str, str]
) -> tuple[onnx.ModelProto, dict[str, onnx.FunctionProto]]:
    """Copies the model with every trtsmith plugin node as a call of a function; also returns these functions by name.

    Arguments and errors as of `expand_model`.
    """
    expanded = onnx.ModelProto()
    expanded.CopyFrom(model)
    imports = [*model.opset_import, *(o for function in model.functions for o in function.opset_import)]
    opset = next((o.version for o in imports if o.domain in ("", "ai.onnx")), MIN_OPSET)
    functions: dict[str, onnx.FunctionProto] = {}
    total = 0
    for node in plugin_nodes(expanded.graph):
        op, expansion = _expansion_of(node, dtypes, opset)
        name = _function_name(op, expansion)
        if name not in functions:
            functions[name] = expansion_function(op, expansion)
        total += len(functions[name].node)
        if total > MOST_NODES:
            raise _too_many(f"the model's plugin nodes take more than {MOST_NODES:,} nodes")
        node.op_type, node.domain = name, EXPANDED_DOMAIN
        del node.attribute[:]
        node.input[:] = [value for value in node.input if value]
    if functions:
        expanded.functions.extend(functions.values())
        expanded.opset_import.append(helper.make_opsetid(EXPANDED_DOMAIN, 1))
    return expanded, functions


def function_of(node: onnx.NodeProto, dtypes: Mapping[str, str], opset: int) -> onnx.FunctionProto:
    """Writes the operator of one of our plugin nodes as a function of its connected inputs, as for `expand_model`."""
    return expansion_function(*_expansion_of(node, dtypes, opset))


def _expansion_of(node: onnx.NodeProto, dtypes: Mapping[str, str], opset: int) -> tuple[OpDef, Expansion]:
    op = by_name()[node.op_type]
    if opset < op.expansion_opset:
        later = f"opset {op.expansion_opset} or later"
        raise ExpansionError(
            f"opset {opset} is older than {op.expansion_opset}",
            later,
            f"export the model with {later}, or compute the operator's nodes by a function of yours: --reference "
            f"{op.name}=MODULE:FUNCTION",
        )
    present = [(port, value) for port, value in zip(op.inputs, node.input, strict=False) if value]
    dtype = next(
        (dtypes[value] for port, value in present if port.type == op.key and value in dtypes), "float32"
    )
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    connected = frozenset(port.name for port, _ in present)
    return op, Expansion(fields_of_node(op, attributes), connected, dtype, opset)


def plugin_nodes(graph: onnx.GraphProto) -> Iterable[onnx.NodeProto]:
    """Yields our plugin nodes of a graph and of its subgraphs."""
    for node in graph.node:
        if node.domain == PLUGIN_NAMESPACE and node.op_type in by_name():
            yield node
        for attribute in node.attribute:
            for subgraph in (attribute.g, *attribute.graphs):
                if subgraph.node:
                    yield from plugin_nodes(subgraph)
