"""Checks nodes against their operators' schemas, so that attributes exist and have the right type.

Known are ONNX's own operators and onnxruntime's; of others, that attributes are sound is all that can be said. An attribute
that the schema does not have is let through, if it is no near miss of one that it has: TensorRT ignores it, and plugins are
found by two such.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any

import onnx

from trtsmith.importers.counted import counted
from trtsmith.importers.dtypes import NUMBERS
from trtsmith.importers.problem import Problem
from trtsmith.importers.registry import normalise_domain

A = onnx.AttributeProto

_FIX = "correct the node where the model is exported"
_NEEDED: dict[int, str] = {A.TENSOR: "t", A.GRAPH: "g", A.SPARSE_TENSOR: "sparse_tensor", A.TYPE_PROTO: "tp"}
_SINGLE: dict[int, str] = {A.FLOAT: "f", A.INT: "i", A.STRING: "s", **_NEEDED}
_LISTS: dict[int, str] = {
    A.FLOATS: "floats",
    A.INTS: "ints",
    A.STRINGS: "strings",
    A.TENSORS: "tensors",
    A.GRAPHS: "graphs",
    A.SPARSE_TENSORS: "sparse_tensors",
    A.TYPE_PROTOS: "type_protos",
}
_FIELDS: Mapping[int, str] = {**_SINGLE, **_LISTS}
_VALUES = frozenset(_FIELDS.values())
_FEWEST = {"Constant": 1}
"""Attributes of which a node must have one, where its schema says of each that it may be absent."""

_POSITIVE = ("kernel_shape", "strides", "dilations", "group")
_PER_AXIS = {"kernel_shape": 1, "strides": 1, "dilations": 1, "pads": 2, "output_padding": 1}
"""Numbers of each attribute for an axis."""

_TYPE_ATTRIBUTES = ("to", "dtype", "output_dtype", "output_datatype")
_OPTIONAL_TYPE = "output_dtype"
"""Where 0 stands for a type that other inputs decide."""

_ELEMENT_TYPES = frozenset(NUMBERS.values())

_NEAR = 0.75
"""Likeness from which on an unknown attribute is taken for a misspelt one: "alpah" and "alpha" have 0.8."""

Counts = tuple[int, int]
"""How many values a body takes and gives."""


@dataclass(frozen=True)
class _Takes:
    """A schema's demands on a node. types: of its attributes; needed: positions of required inputs."""

    required: frozenset[str]
    types: Mapping[str, int]
    inputs: tuple[int, int]
    needed: tuple[tuple[int, str], ...]
    outputs: tuple[int, int]


def check_nodes(proto: onnx.ModelProto, file: str) -> Iterator[Problem]:
    """Reports missing and mistyped attributes, and wrong numbers of inputs and outputs, also in functions."""
    functions = {(normalise_domain(f.domain), f.name): f for f in proto.functions}
    opsets = _opsets(proto.opset_import)
    for node, place in _nodes(proto.graph.node, ""):
        yield from _check_node(node, f"{file}: {place}", opsets, functions, None)
    for function in proto.functions:
        own = {**opsets, **_opsets(function.opset_import)}
        parameters = {*function.attribute, *(a.name for a in function.attribute_proto)}
        where = f"{file}: function {function.domain}.{function.name}"[:300]
        for node, place in _nodes(function.node, ""):
            yield from _check_node(node, f"{where}: {place}", own, functions, parameters)


def _opsets(entries: Sequence[onnx.OperatorSetIdProto]) -> dict[str, int]:
    return {normalise_domain(entry.domain): int(entry.version) for entry in entries}


def _nodes(nodes: Sequence[onnx.NodeProto], outer: str) -> Iterator[tuple[onnx.NodeProto, str]]:
    for node in nodes:
        name = node.name or ", ".join(node.output)
        place = f"{outer}node {name[:200]!r} ({node.op_type[:200]})"
        yield node, place
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes(attribute.g.node, f"{place}: ")
            for graph in attribute.graphs:
                yield from _nodes(graph.node, f"{place}: ")


def _check_node(
    node: onnx.NodeProto,
    where: str,
    opsets: Mapping[str, int],
    functions: Mapping[tuple[str, str], onnx.FunctionProto],
    parameters: Collection[str] | None,
) -> Iterator[Problem]:
    """Checks one node. parameters: of the function around the node; None outside of functions."""
    if not node.op_type:
        yield Problem("The node has no op_type.", where, "the name of an operator", _FIX)
        return
    sound = True
    seen: set[str] = set()
    for attribute in node.attribute:
        for problem in _check_attribute(attribute, where, seen, parameters):
            sound = False
            yield problem
        seen.add(attribute.name)
    domain = normalise_domain(node.domain)
    function = functions.get((domain, node.op_type))
    signature = (
        _of_function(function) if function else _signature(domain, node.op_type, opsets.get(domain, 1))
    )
    if not sound or signature is None:
        return
    problems = [*_check_signature(node, where, signature)]
    if not domain and function is None and not problems:
        problems += _check_subgraphs(node, opsets.get("", 1), where)
        problems += [*_check_windows(node, where), *_check_dtypes(node, where)]
        problems += _check_values(node, where)
        problems += _check_equation(node, where)
        problems += _check_names(node, where, signature.types)
        if len(node.attribute) < _FEWEST.get(node.op_type, 0):
            what = f"The {node.op_type} has no attribute."
            problems.append(Problem(what, where, "one attribute that holds its value", _FIX))
    yield from problems


def _check_attribute(
    attribute: onnx.AttributeProto, where: str, seen: Collection[str], parameters: Collection[str] | None
) -> Iterator[Problem]:
    name = attribute.name[:200]
    if not name:
        yield Problem("An attribute has no name.", where, "a name for each attribute", _FIX)
    if attribute.name in seen:
        yield Problem(f"The attribute {name!r} is given twice.", where, "each attribute once", _FIX)
    if attribute.ref_attr_name:
        if parameters is None or attribute.ref_attr_name not in parameters:
            what = f"The attribute {name!r} takes the value of {attribute.ref_attr_name[:200]!r}."
            expected = (
                "an attribute of the function that the node is in" if parameters is not None else "a value"
            )
            yield Problem(what, where, expected, _FIX)
        return
    field = _FIELDS.get(attribute.type)
    if field is None:
        what = f"The attribute {name!r} has no type."
        yield Problem(what, where, "one of the types of onnx.AttributeProto", "export the model again")
        return
    filled = {entry.name for entry, _ in attribute.ListFields()} & _VALUES
    if filled - {field} or (attribute.type in _NEEDED and not filled):
        held = ", ".join(sorted(filled)) or "none"
        what = f"The attribute {name!r} is of type {_type_name(attribute.type)}, and its value is in {held}."
        yield Problem(what, where, f"a value in {field}", "export the model again")


def _check_values(node: onnx.NodeProto, where: str) -> Iterator[Problem]:
    """Reports values on which inference or rules would fail, such as a Split with more outputs than num_outputs."""
    for attribute in node.attribute:
        if attribute.s.decode(errors="replace").encode() != attribute.s:
            what = f"The attribute {attribute.name!r} is not text in UTF-8."
            yield Problem(what, where, "text in UTF-8, as ONNX keeps strings", _FIX)
        if attribute.name == "num_outputs" and not attribute.ref_attr_name and attribute.i < len(node.output):
            what = f"The attribute 'num_outputs' is {attribute.i}, and the node has {counted(len(node.output), 'output')}."
            yield Problem(what, where, f"'num_outputs' as {len(node.output)}", _FIX)
        scanned, given = attribute.name == "num_scan_inputs" and not attribute.ref_attr_name, len(node.input)
        if scanned and not 0 < attribute.i <= given:
            what = f"The attribute 'num_scan_inputs' is {attribute.i}, and the node has {counted(given, 'input')}."
            yield Problem(what, where, f"'num_scan_inputs' from 1 to {given}", _FIX)


_TERM = r"[A-Za-z]*(?:\.\.\.[A-Za-z]*)?"
_EQUATION = re.compile(f"{_TERM}(?:,{_TERM})*(?:->{_TERM})?")


def _check_equation(node: onnx.NodeProto, where: str) -> Iterator[Problem]:
    """Reports invalid Einsum equations, as onnx's inference hangs on a fourth dot after three."""
    for attribute in node.attribute if node.op_type == "Einsum" else ():
        text = attribute.s.decode(errors="replace")
        if attribute.name == "equation" and text and not _EQUATION.fullmatch(text.replace(" ", "")):
            what = f"The attribute 'equation' of the Einsum is {text[:80]!r}."
            expected = "terms of letters, and of three dots at most once in each"
            yield Problem(what, where, expected, _FIX)


def _check_names(node: onnx.NodeProto, where: str, known: Collection[str]) -> Iterator[Problem]:
    """Reports misspelt attributes: TensorRT would take the default, and onnxruntime refuses them after the build."""
    given = {attribute.name for attribute in node.attribute}
    for name in sorted(given.difference(known)):
        if near := get_close_matches(name, set(known) - given, 1, _NEAR):
            what = f"{node.op_type} has no attribute {name[:200]!r}."
            yield Problem(
                what, where, f"one of: {', '.join(sorted(known))}", f"did you mean {near[0]!r}? {_FIX}"
            )


def _check_signature(node: onnx.NodeProto, where: str, signature: _Takes) -> Iterator[Problem]:
    given = {attribute.name: attribute.type for attribute in node.attribute if not attribute.ref_attr_name}
    present = {attribute.name for attribute in node.attribute}
    for name in sorted(signature.required - present):
        kind = _type_name(signature.types[name]) if name in signature.types else "value"
        what = f"The attribute {name!r}, which {node.op_type} needs, is missing."
        yield Problem(what, where, f"{name!r} as {kind}", _FIX)
    for name, kind in given.items():
        wanted = signature.types.get(name, kind)
        if wanted != kind:
            what = f"The attribute {name!r} is of type {_type_name(kind)}."
            yield Problem(what, where, f"{name!r} as {_type_name(wanted)}", _FIX)
    for what, count, (least, most) in (
        ("inputs", len(node.input), signature.inputs),
        ("outputs", len(node.output), signature.outputs),
    ):
        if not least <= count <= most:
            wanted_count = str(least) if least == most else f"{least} to {most}"
            fix = f"{_FIX}, or the model's opset"
            yield Problem(f"the node has {count} {what}", where, f"{wanted_count} {what} in this opset", fix)
            return
    for index, name in signature.needed:
        if index < len(node.input) and not node.input[index]:
            what = f"The input {name!r} (number {index}), which {node.op_type} needs, is left out."
            yield Problem(what, where, f"a value for {name!r}", _FIX)


def _of_function(function: onnx.FunctionProto) -> _Takes:
    types = {a.name: a.type for a in function.attribute_proto}
    most = len(function.input), len(function.output)
    return _Takes(frozenset(function.attribute), types, (0, most[0]), (), (0, most[1]))


@cache
def _signature(domain: str, op_type: str, version: int) -> _Takes | None:
    """The operator's schema; None for an unknown operator or version."""
    schema = _schema(domain, op_type, version)
    if schema is None or schema.deprecated:
        return None
    types = {name: A.AttributeType.Value(entry.type.name) for name, entry in schema.attributes.items()}
    needed = tuple(
        (index, str(port.name)) for index, port in enumerate(schema.inputs) if port.option.name == "Single"
    )
    return _Takes(
        frozenset(name for name, entry in schema.attributes.items() if entry.required),
        types,
        (schema.min_input, schema.max_input),
        needed,
        (schema.min_output, schema.max_output),
    )


def _schema(domain: str, op_type: str, version: int) -> Any:
    if domain in _DOMAINS:  # what a program has registered there with onnx is the program's own
        return _of_onnxruntime().get((domain, op_type))
    try:
        return onnx.defs.get_schema(op_type, version, domain)
    except onnx.defs.SchemaError:
        return None


_DOMAINS = frozenset({"com.microsoft"})
"""Of onnxruntime, with operators that rules take."""


@cache
def _of_onnxruntime() -> Mapping[tuple[str, str], Any]:
    import onnxruntime.capi.onnxruntime_pybind11_state as ort_state  # 0.1 s, for models with such nodes only

    return {(s.domain, s.name): s for s in ort_state.get_all_operator_schema() if s.domain in _DOMAINS}


def _type_name(number: int) -> str:
    return str(A.AttributeType.Name(number))


def _check_subgraphs(node: onnx.NodeProto, opset: int, where: str) -> Iterator[Problem]:
    """Checks the inputs and outputs of a node's bodies. The node's attributes match its schema."""
    counts = _COUNTS.get(node.op_type)
    if counts is None:
        return
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield from _check_body(attribute, where, counts(node, opset))


def _check_body(attribute: onnx.AttributeProto, where: str, wanted: Counts) -> Iterator[Problem]:
    body = attribute.g
    given = len(body.input), len(body.output)
    for what, count, right in zip(("inputs", "outputs"), given, wanted, strict=True):
        if count != right:
            said = f"The graph {attribute.name!r} of the node has {count} {what}."
            yield Problem(said, where, f"{right}, as the node's inputs and outputs have it", _FIX)


def _if(node: onnx.NodeProto, opset: int) -> Counts:
    return 0, len(node.output)


def _loop(node: onnx.NodeProto, opset: int) -> Counts:
    """Port counts of a Loop body: the counter takes the place of the trip count, and only the condition is an
    output, too.
    """
    return max(2, len(node.input)), len(node.output) + 1


def _scan(node: onnx.NodeProto, opset: int) -> Counts:
    """Port counts of a Scan body; opset 8 had sequence lengths before all other inputs."""
    return len(node.input) - (opset == 8), len(node.output)


def _map(node: onnx.NodeProto, opset: int) -> Counts:
    return len(node.input), len(node.output)


_COUNTS: Mapping[str, Callable[[onnx.NodeProto, int], Counts]] = {
    "If": _if,
    "Loop": _loop,
    "Scan": _scan,
    "SequenceMap": _map,
}


def _check_windows(node: onnx.NodeProto, where: str) -> Iterator[Problem]:
    """Reports invalid kernels, strides and dilations of convolutions and poolings."""
    given = {a.name: a for a in node.attribute if not a.ref_attr_name}
    lists = {name: list(given[name].ints) for name in _PER_AXIS if name in given}
    if not {"kernel_shape", "strides", "dilations"} & lists.keys():
        return
    axes = {name: len(values) / _PER_AXIS[name] for name, values in lists.items() if values}
    first = next(iter(axes), "")
    for name, count in axes.items():
        if count != axes[first]:
            what = f"The attribute {name!r} is {lists[name][:16]}."
            expected = f"numbers for as many axes as {first!r} has, {lists[first][:16]}"
            yield Problem(what, where, expected, _FIX)
    for name in _POSITIVE:
        values = lists.get(name) or ([given[name].i] if name == "group" and name in given else [])
        if any(not 0 < value < 1 << 31 for value in values):
            yield Problem(
                f"The attribute {name!r} is {values[:16]}.", where, "positive numbers of 32 bits", _FIX
            )


def _check_dtypes(node: onnx.NodeProto, where: str) -> Iterator[Problem]:
    """Reports invalid types in attributes of standard operators."""
    for attribute in node.attribute:
        names_type = attribute.name in _TYPE_ATTRIBUTES and attribute.type == onnx.AttributeProto.INT
        if not names_type or attribute.ref_attr_name or attribute.i in _ELEMENT_TYPES:
            continue
        if attribute.name == _OPTIONAL_TYPE and attribute.i == 0:
            continue
        what = f"The attribute {attribute.name!r} is {attribute.i}."
        expected = f"the number of a type of onnx.TensorProto, 1 to {max(_ELEMENT_TYPES)}"
        yield Problem(what, where, expected, _FIX)
