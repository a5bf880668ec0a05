"""Converts other tools' nodes to plugin nodes: strict attributes, renamed inputs, prologue and epilogue.

Pure ONNX: what comes out is a list of NodeProto, so that the graph-surgeon pass and every test share this one path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
from onnx import helper

from trtsmith.importers.counted import counted
from trtsmith.importers.dtypes import NUMBERS
from trtsmith.importers.fields import check_fields, plugin_attributes, read_attribute
from trtsmith.importers.opdef import (
    FRAGMENT_OPSET,
    PLUGIN_ATTRIBUTES,
    PLUGIN_NAMESPACE,
    TYPE_VARIABLES,
    Alias,
    AliasedNode,
    Attr,
    Fields,
    Fragment,
    OpDef,
    Port,
    Refusal,
)
from trtsmith.importers.registry import find_aliases, normalise_domain, package_of

_WIDEN = {"float64": "float32"}
"""Dtypes that TensorRT has not, and what they become around the plugin."""


_FLOATS = (*TYPE_VARIABLES["T"], *_WIDEN)


def _no_constant(_name: str) -> np.ndarray | None:
    return None


@dataclass(frozen=True)
class ForeignNode:
    """A node of a graph as plain data, independent of any graph library.

    inputs:   value names in order, "" where an optional input is left out.
    outputs:  the same, "" where nobody reads the value.
    constant: the value of a constant input by name, or None.
    dtypes, shapes: by value name, where known.
    """

    name: str
    op_type: str
    domain: str
    attributes: Mapping[str, Any]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constant: Callable[[str], np.ndarray | None] = _no_constant
    dtypes: Mapping[str, str] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int | None, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Lowered:
    """The replacement of a node: nodes in order, including the plugin node, and notes for the user."""

    op: OpDef
    alias: Alias
    fields: Fields
    nodes: tuple[onnx.NodeProto, ...]
    plugin_node: str
    notes: tuple[str, ...] = ()


def lower(node: ForeignNode, opset: int) -> Lowered | Refusal | None:
    """Lowers a foreign node. Returns a Refusal with the reason, or None if no operator has such an alias.

    opset: version of the node's domain that the model imports.
    """
    candidates = find_aliases(node.domain, node.op_type)
    refusals = []  # aliases that take as many inputs come first: their refusal names the right one
    for op, alias in sorted(candidates, key=lambda pair: len(node.inputs) not in _counts(pair[1])):
        first, last = alias.opsets
        # Opset versions count within a domain; a node that was moved to another has lost its own.
        own = normalise_domain(node.domain) in alias.domains
        if own and (opset < first or (last is not None and opset > last)):
            refusals.append(
                Refusal(
                    f"{node.domain or 'ai.onnx'}::{node.op_type} of opset {opset}",
                    f"opset {first}{f' to {last}' if last else ' or later'}",
                    "export the model with an opset in that range",
                )
            )
            continue
        read = _read(node, op, alias)
        if isinstance(read, Refusal):
            refusals.append(read)
            continue
        found, names = read
        if alias.when is not None and not alias.when(found):
            continue
        return _emit(node, op, alias, found, names)
    return refusals[0] if refusals else None


def _counts(alias: Alias) -> range:
    """How many inputs a node may have."""
    required = sum(not name.endswith("?") for name in alias.inputs)
    return range(required, len(alias.inputs) + len(alias.constants) + 1)


def _read(node: ForeignNode, op: OpDef, alias: Alias) -> tuple[AliasedNode, dict[str, str]] | Refusal:
    """The node checked against the alias: an AliasedNode and the value name of every connected input."""
    names: dict[str, str] = {}
    slots = [name.rstrip("?") for name in alias.inputs]
    for position, declared in enumerate(alias.inputs):
        value = node.inputs[position] if position < len(node.inputs) else ""
        if value:
            names[slots[position]] = value
        elif not declared.endswith("?"):
            needed = len([name for name in alias.inputs if not name.endswith("?")])
            return Refusal(
                f"input {slots[position]!r} (number {position}) is not connected",
                f"{counted(needed, 'input')}: {', '.join(alias.inputs)}",
                "export the node with all of its inputs",
            )
    raw = _raw_attributes(node, alias, slots)
    attributes = (*alias.attributes, *alias.constants)
    attrs = raw if isinstance(raw, Refusal) else _read_attributes(attributes, raw, op)
    if isinstance(attrs, Refusal):
        return attrs
    found = AliasedNode(
        attrs=attrs,
        present=frozenset(names),
        dtypes={name: node.dtypes[value] for name, value in names.items() if value in node.dtypes},
        shapes={name: node.shapes[value] for name, value in names.items() if value in node.shapes},
    )
    return found, names


def _raw_attributes(node: ForeignNode, alias: Alias, slots: list[str]) -> dict[str, Any] | Refusal:
    """The attributes, with those that the node has as constant inputs. slots: the names of its other inputs."""
    raw = {name: value for name, value in node.attributes.items() if name not in PLUGIN_ATTRIBUTES}
    extra = list(node.inputs[len(slots) :])
    while extra and not extra[-1]:
        extra.pop()
    if len(extra) > len(alias.constants):
        return Refusal(
            counted(len(node.inputs), "input"),
            f"at most {len(slots) + len(alias.constants)}: "
            + ", ".join((*alias.inputs, *(a.name for a in alias.constants))),
            "export the node with the inputs of that operator",
        )
    for attr, value in zip(alias.constants, extra, strict=False):
        if not value:
            continue
        array = node.constant(value)
        if array is None:
            return Refusal(
                f"input {attr.name!r} is not a constant",
                f"a constant {attr.kind.value}",
                "make it an initializer where the model is exported",
            )
        raw[attr.name] = array.astype(np.int64 if array.dtype == bool else array.dtype).reshape(-1).tolist()
    return raw


def _read_attributes(
    declared: tuple[Attr, ...], raw: Mapping[str, Any], op: OpDef
) -> dict[str, Any] | Refusal:
    known = {attr.name for attr in declared}
    unknown = sorted(set(raw) - known)
    if unknown:
        meant = sorted(known - set(raw)) if package_of(op.name) is not None else []
        renamed = "".join(
            f'; if it is {name!r} of {op.name}, replace "{name}" by "{unknown[0]}" in the definition, or name the '
            "parameter of the function so and write the package again"
            for name in meant[:1]
        )
        return Refusal(
            f"unknown attribute {unknown[0]!r} = {raw[unknown[0]]!r}",
            "attributes " + (", ".join(sorted(known)) or "none"),
            f"remove {unknown[0]!r}, or check that the node is the operator that it seems to be{renamed}",
        )
    attrs: dict[str, Any] = {}
    for attr in declared:
        if attr.ignored:
            continue
        if attr.name not in raw:
            if attr.default is None:
                return Refusal(
                    f"missing attribute {attr.name!r}",
                    f"{attr.name}: {attr.kind.value}",
                    f"export the node with {attr.name!r}",
                )
            attrs[attr.name] = attr.default
            continue
        value, refusal = read_attribute(attr, raw[attr.name])
        if refusal is not None:
            return refusal
        attrs[attr.name] = value
    return attrs


def _emit(
    node: ForeignNode, op: OpDef, alias: Alias, found: AliasedNode, names: dict[str, str]
) -> Lowered | Refusal:
    refusal = alias.guard(found) if alias.guard is not None else None
    fields = alias.fields(found) if refusal is None else {}
    refusal = refusal or check_fields(op, fields)
    if refusal is not None:
        return refusal
    outputs = list(alias.outputs or (port.name for port in op.outputs))
    if any(node.outputs[len(outputs) :]):
        return Refusal(
            counted(len(node.outputs), "output"),
            f"{len(outputs)}: {', '.join(outputs)}",
            "remove the other one",
        )
    work = _Lowering(node, op, alias, dict(names))
    work.add_prologue(found)
    plugin_inputs = work.inputs()
    if isinstance(plugin_inputs, Refusal):
        return plugin_inputs
    return work.finished(plugin_inputs, outputs, fields, found)


class _Lowering:
    """A foreign node in our operators, in the making.

    values: of the graph by their names in the alias. base: of the names of new ones: outputs have one name in a graph; nodes
    may have none, or share one.
    """

    def __init__(self, node: ForeignNode, op: OpDef, alias: Alias, values: dict[str, str]) -> None:
        self._node, self._op, self._alias, self._values = node, op, alias, values
        self._base = f"{node.outputs[0]}/{op.name}"
        self._nodes: list[onnx.NodeProto] = []
        self._notes: list[str] = []
        self._known = dict(node.dtypes)
        self._target: dict[str, str] = {}  # dtype that each type variable takes: that of its first port

    def add_prologue(self, found: AliasedNode) -> None:
        if self._alias.prologue:
            found = self._aligned(found)
            floats = [dtype for dtype in found.dtypes.values() if dtype in _FLOATS]
            if floats:
                self._target["T"] = floats[0]
        self._nodes += _fragment(self._alias.prologue, found, self._values, self._base)

    def _aligned(self, found: AliasedNode) -> AliasedNode:
        """Casts floating inputs of a prologue to the dtype of the first, so that its operators see one dtype."""
        own = {port.name for port in self._op.inputs if port.type == "F"}  # of float32 in any case
        floats = {name: dtype for name, dtype in found.dtypes.items() if dtype in _FLOATS and name not in own}
        if not floats:
            return found
        first = next(iter(floats.values()))
        want = _WIDEN.get(first, first)
        for name, have in floats.items():
            if have != want:
                self._values[name] = cast = self._converted(name, self._values[name], have, want)
                self._known[cast] = want
        return replace(found, dtypes={**found.dtypes, **dict.fromkeys(floats, want)})

    def _converted(self, name: str, value: str, have: str, want: str) -> str:
        cast = f"{self._base}/{name}_{want}"
        self._nodes.append(_cast(value, cast, want))
        self._notes.append(f"{name} cast from {have} to {want}")
        return cast

    def inputs(self) -> list[str] | Refusal:
        """The values that the plugin reads, in the order of its ports."""
        known = self._known
        dtypes = {local: known[value] for local, value in self._values.items() if value in known}
        read = []
        for port in self._op.inputs:
            value = self._values.get(port.name, "")
            if value:
                have = dtypes.get(port.name, self._target.get(port.type))
                found = self._input(port, value, have) if have is not None else value
                if isinstance(found, Refusal):
                    return found
                read.append(found)
            elif not port.optional:
                what = f"alias {self._alias.op_type} gives no value to port {port.name} of {self._op.name}"
                raise LookupError(what)
        return read

    def _input(self, port: Port, value: str, have: str) -> str | Refusal:
        """The value in the type that the port's type variable takes."""
        single = port.type == "F" and have in _FLOATS
        want = self._target.setdefault(port.type, "float32" if single else _WIDEN.get(have, have))
        if want not in TYPE_VARIABLES[port.type]:
            return Refusal(
                f"input {port.name!r} is {have}",
                f"one of {', '.join(TYPE_VARIABLES[port.type])}",
                f"cast {port.name!r} where the model is exported",
            )
        return value if have == want else self._converted(port.name, value, have, want)

    def finished(
        self, plugin_inputs: list[str], outputs: list[str], fields: Fields, given: AliasedNode
    ) -> Lowered:
        """With the plugin's node, and what comes behind it. outputs: the alias's. given: the node as it was read."""
        node, op, values, base = self._node, self._op, self._values, self._base
        results = dict(zip(outputs, node.outputs, strict=False))
        first = next((node.dtypes[value] for value in node.inputs if node.dtypes.get(value) in _FLOATS), None)
        back_to = first if first in _WIDEN else None
        plugin_outputs, after = [], []
        for port in op.outputs:
            values[port.name] = value = results.get(port.name) or f"{base}/{port.name}"
            if back_to is not None and port.type in ("T", "E"):
                narrow = f"{value}_{self._target[port.type]}"
                after.append(_cast(narrow, value, back_to))
                value = narrow
            plugin_outputs.append(value)
        name = f"{node.name}/{op.name}" if node.name else base
        plugin = helper.make_node(op.name, plugin_inputs, plugin_outputs, name=name, domain=PLUGIN_NAMESPACE)
        plugin.attribute.extend(  # a field may be called as an argument of make_node is: name, inputs
            helper.make_attribute(key, value) for key, value in sorted(plugin_attributes(op, fields).items())
        )
        values |= {name: results[name] for name in outputs if results.get(name)}
        # ports have the node's types again
        epilogue = _fragment(self._alias.epilogue, given, values, f"{base}/after")
        nodes = (*self._nodes, plugin, *after, *epilogue)
        return Lowered(op, self._alias, fields, nodes, plugin.name, tuple(self._notes))


def _cast(source: str, result: str, dtype: str) -> onnx.NodeProto:
    return helper.make_node("Cast", [source], [result], name=result, to=NUMBERS[dtype])


def parse_statements(text: str, opset: int) -> list[onnx.NodeProto]:
    """Parses ONNX statements (`y = Op <attr = 1> (x)`, one a line) into nodes. ParseError is a bug in a definition."""
    function = onnx.parser.parse_function(
        f'<domain: "fragment", opset_import: ["" : {opset}]> fragment (unused) => (unused) {{\n{text}\n}}'
    )
    return list(function.node)


def _fragment(
    fragment: str | Callable[[AliasedNode], Fragment], found: AliasedNode, values: dict[str, str], base: str
) -> list[onnx.NodeProto]:
    """The fragment's nodes with local names replaced by graph values; `values` gains the names that it defines."""
    body = fragment(found) if callable(fragment) else fragment
    if not body:
        return []
    if isinstance(body, str):
        nodes = parse_statements(body, FRAGMENT_OPSET)
    else:
        builder = next(iter(body.values())).builder
        outer, values = values, dict(values)  # names of a builder mean nothing to another fragment
        for local, made in zip(body, builder.distinct([*body.values()]), strict=True):
            values[made.name] = outer.setdefault(local, f"{base}/{local}")
        nodes = builder.nodes
    for index, node in enumerate(nodes):
        for position, local in enumerate(node.input):
            if local and local not in values:
                raise LookupError(f"a statement reads {local!r}, which nothing makes")
            node.input[position] = values[local] if local else ""
        for position, local in enumerate(node.output):
            node.output[position] = values.setdefault(local, f"{base}/{local}")
        node.name = f"{base}/{node.op_type}_{index}_{node.output[0].rsplit('/', 1)[-1]}"
    return nodes
