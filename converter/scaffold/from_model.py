"""Drafts an operator from an unknown node of a model: its ports, attributes, types, shapes and function body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.graph.infer import infer_shapes, value_types
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.operators.definition_check import NAME
from trtsmith.converter.rewrite.rewrite import lowered
from trtsmith.converter.scaffold.body_rules import FunctionBody, rules_of_body
from trtsmith.converter.scaffold.case_sizes import chosen_cases
from trtsmith.converter.scaffold.draft import Draft
from trtsmith.converter.scaffold.function_text import body_of_function
from trtsmith.converter.scaffold.model_node import ModelNode, described, find_node, numbers
from trtsmith.converter.scaffold.names import Names
from trtsmith.converter.scaffold.node_example import node_example
from trtsmith.converter.scaffold.port_types import port_names, type_variables
from trtsmith.converter.scaffold.reference_source import body_file, of_body, unwritten
from trtsmith.converter.scaffold.shape_rules import ShapeRules, Sizes
from trtsmith.importers.dims import describe
from trtsmith.importers.opdef import Attr, Field, Kind, Port, Value
from trtsmith.importers.registry import normalise_domain

_KINDS = {
    onnx.AttributeProto.INT: Kind.INT,
    onnx.AttributeProto.INTS: Kind.INTS,
    onnx.AttributeProto.FLOAT: Kind.FLOAT,
    onnx.AttributeProto.FLOATS: Kind.FLOATS,
    onnx.AttributeProto.STRING: Kind.STRING,
}


def draft_of_node(names: Names, path: Path, wanted: str, domain: str | None = None) -> Draft:
    """Drafts the operator of an unknown node. Raises UsageError for other nodes.

    wanted: the node's name, or one of its outputs, or an op_type that one node has. domain: the one that it must have.
    """
    model = _typed(load_model(path))
    node = described(model.proto, find_node(model.proto, wanted, path), path)
    function = _function_of(model.proto, node, domain)
    fields, attributes, values = _fields(node, function)
    given = list(function.input)[: len(node.inputs)] if function is not None else ["" for _ in node.inputs]
    made = list(function.output)[: len(node.outputs)] if function is not None else ["" for _ in node.outputs]
    in_names = port_names(given, "input")
    out_names = port_names(made, "output", in_names)
    kinds_in, kinds_out = type_variables(
        {value: node.dtypes.get(value, "") for value in node.inputs},
        {value: node.dtypes.get(value, "") for value in node.outputs},
        node.where,
    )
    shapes = {name: numbers(node, value) for name, value in zip(in_names, node.inputs, strict=True)}
    body, opset = "", 11
    rules: ShapeRules | None
    if function is not None:
        body, opset = body_of_function(model.proto, function, in_names, out_names)
        ports = dict(zip(in_names, kinds_in, strict=True))
        rules = rules_of_body(FunctionBody(body, opset, ports, tuple(out_names), values, shapes, node.where))
    else:
        rules = _rules_of_names(node, in_names, out_names, shapes)
    domain = normalise_domain(node.proto.domain)
    kind = f"{domain}::{node.proto.op_type}" if domain else node.proto.op_type
    first = rules.tried[0] if rules is not None else shapes
    made_shapes = [rules.first[name] if rules is not None else None for name in out_names]
    values_of = (node.inputs, node.outputs)
    return Draft(
        names=names,
        doc=f"{kind}, as {path.name} has it.",
        origin="--from-model",
        inputs=_ports(node, in_names, kinds_in, node.inputs, {n: len(s) for n, s in shapes.items()}),
        outputs=_ports(node, out_names, kinds_out, node.outputs, {n: _rank(rules, n) for n in out_names}),
        fields=fields,
        alias=(domain, node.proto.op_type),
        attributes=attributes,
        source=path.name,
        rules=rules.outputs if rules is not None else None,
        equal=tuple(group for group in rules.free if len(group) > 1) if rules is not None else (),
        fixed=rules.fixed if rules is not None else (),
        cases=chosen_cases(rules) if rules is not None else {"small": shapes},
        values=values,
        reference=of_body(out_names) if body else unwritten(names),
        opset=opset,
        example=node_example(model.proto, node.proto, *values_of, first.values(), node.dtypes, made_shapes),
        own_imports=f"from {names.snake}.body import BODY, OPSET\n\n" if body else "",
        imports="from trtsmith.definitions import filled, run_body\n" if body else "",
        files={f"{names.snake}/body.py": body_file(names, "the model", body, opset)} if body else {},
        unwritten=() if body else (*(("_shape",) if rules is None else ()), "_reference", "_expand"),
    )


def _typed(model: Model) -> Model:
    """The model with the types of its values: behind nodes of operators that are in force, too."""
    inferred = infer_shapes(model)
    known = value_types(inferred.proto)
    behind = value_types(infer_shapes(lowered(inferred)).proto)
    proto = inferred.copied()
    for name in (name for node in inferred.proto.graph.node for name in node.output):
        if name in behind and name not in known:
            proto.graph.value_info.add(name=name).type.tensor_type.CopyFrom(behind[name])
    return inferred.with_proto(proto)


def _function_of(
    proto: onnx.ModelProto, node: ModelNode, given_domain: str | None
) -> onnx.FunctionProto | None:
    """The function of the model that the node calls. UsageError if a domain is given that is not the node's."""
    domain = normalise_domain(node.proto.domain)
    if given_domain not in (None, domain):
        what = f"the node's domain is {domain!r}"
        expected = f"--domain {domain}" if domain else "no --domain: the node has none"
        raise UsageError(what, f"--domain {given_domain}", expected, "leave --domain out")
    kind = (domain, node.proto.op_type)
    return next((f for f in proto.functions if (normalise_domain(f.domain), f.name) == kind), None)


def _ports(
    node: ModelNode,
    names: Sequence[str],
    kinds: Sequence[str],
    values: Sequence[str],
    ranks: Mapping[str, int | None],
) -> tuple[Port, ...]:
    return tuple(
        Port(name, kind, ranks[name], _port_doc(node, value))
        for name, kind, value in zip(names, kinds, values, strict=True)
    )


def _fields(
    node: ModelNode, function: onnx.FunctionProto | None
) -> tuple[tuple[Field, ...], tuple[Attr, ...], dict[str, Value]]:
    """Fields, the alias's attributes and the node's values. Defaults are those of the function."""
    defaults = {a.name: a for a in function.attribute_proto} if function is not None else {}
    given = {a.name: a for a in node.proto.attribute}
    fields, attributes, values = [], [], {}
    for name in dict.fromkeys((*defaults, *given)):
        if name in ("plugin_version", "plugin_namespace"):
            continue
        attribute = given.get(name, defaults.get(name))
        assert attribute is not None
        if not NAME.fullmatch(name):
            raise UsageError(
                f"an attribute is called {name!r}",
                node.where,
                "a name of letters, digits and underscores, as a plugin field needs",
                "rename the attribute where the model is made, or write the operator by hand: trtsmith op new without "
                "--from-model",
            )
        if attribute.type not in _KINDS:
            kind = onnx.AttributeProto.AttributeType.Name(attribute.type)
            raise UsageError(
                f"attribute {name!r} is a {kind}",
                node.where,
                "numbers, lists of numbers and strings: a plugin has no other fields",
                "write the operator by hand: trtsmith op new without --from-model",
            )
        values[name] = _value(attribute)
        default = _value(defaults[name]) if name in defaults else None
        value = values[name]
        length = len(value) if isinstance(value, tuple) else None
        fields.append(Field(name, _KINDS[attribute.type], f"attribute {name} of the node", length, default))
        attributes.append(Attr(name, _KINDS[attribute.type], default))
    return tuple(fields), tuple(attributes), values


def _value(attribute: onnx.AttributeProto) -> Value:
    value = helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if attribute.type == onnx.AttributeProto.FLOATS:
        return tuple(map(_float, value))
    if attribute.type == onnx.AttributeProto.FLOAT:
        return _float(value)
    return tuple(value) if attribute.type == onnx.AttributeProto.INTS else value


def _float(value: float) -> float:
    """As short as float32 lets it be written."""
    return float(str(np.float32(value)))


def _rules_of_names(
    node: ModelNode, inputs: Sequence[str], outputs: Sequence[str], shapes: Sizes
) -> ShapeRules | None:
    """What the model's own sizes say: a name, or else a number, that an input has too. None if it says too little."""
    if any(node.dims[value] is None for value in node.outputs):
        return None
    places = [
        (dim, f"{name}[{axis}]")
        for name, value in zip(inputs, node.inputs, strict=True)
        for axis, dim in enumerate(node.dims[value] or ())
    ]

    known = {
        dim: shapes[name][axis]
        for name, value in zip(inputs, node.inputs, strict=True)
        for axis, dim in enumerate(node.dims[value] or ())
    }

    def expression(dim: int | str) -> str | None:
        same = next((place for other, place in places if other == dim and dim != ""), None)
        return same or (str(dim) if isinstance(dim, int) else None)

    rules = {
        name: tuple(expression(dim) for dim in node.dims[value] or ())
        for name, value in zip(outputs, node.outputs, strict=True)
    }
    if any(part is None for rule in rules.values() for part in rule):
        return None
    whole = {name: tuple(str(part) for part in rule) for name, rule in rules.items()}
    first = {
        name: tuple(dim if isinstance(dim, int) else known[dim] for dim in node.dims[value] or ())
        for name, value in zip(outputs, node.outputs, strict=True)
    }
    return ShapeRules((), (), whole, (shapes,), first)


def _rank(rules: ShapeRules | None, output: str) -> int | None:
    return len(rules.outputs[output]) if rules is not None else None


def _port_doc(node: ModelNode, value: str) -> str:
    dims = node.dims[value]
    shape = (
        describe([None if str(dim).startswith("unk__") else dim or None for dim in dims])
        if dims is not None
        else "a shape that the model does not say"
    )
    return f"{shape}, {value!r} in the model"
