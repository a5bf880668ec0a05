"""Makes changes that no single field can: cycles, wrong subgraphs, recursive functions, parts of other models."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import onnx
from onnx import TensorProto, helper

from fuzzing.bombs import ENDS
from fuzzing.message_changes import messages_of

GraphChange = Callable[[onnx.ModelProto, onnx.ModelProto, random.Random], None]
"""A change to the first model; the second is another one, to take parts of."""


def _nodes(model: onnx.ModelProto) -> list[Any]:
    return messages_of(model).get("NodeProto", [])


def _values(model: onnx.ModelProto) -> list[str]:
    return sorted({name for node in _nodes(model) for name in (*node.input, *node.output)})


def rewire(model: onnx.ModelProto, other: onnx.ModelProto, draw: random.Random) -> None:
    """Replaces a node's input by another value; one from a later node makes a cycle."""
    nodes = [node for node in _nodes(model) if node.input]
    if nodes:
        node = draw.choice(nodes)
        node.input[draw.randrange(len(node.input))] = draw.choice(_values(model))


def drop_attribute(model: onnx.ModelProto, other: onnx.ModelProto, draw: random.Random) -> None:
    nodes = [node for node in _nodes(model) if node.attribute]
    if nodes:
        node = draw.choice(nodes)
        del node.attribute[draw.randrange(len(node.attribute))]


def other_attribute(model: onnx.ModelProto, other: onnx.ModelProto, draw: random.Random) -> None:
    """Replaces an attribute's value and type by another's."""
    found = messages_of(model).get("AttributeProto", [])
    source = [*found, *messages_of(other).get("AttributeProto", [])]
    if found:
        attribute = draw.choice(found)
        name, copy = attribute.name, onnx.AttributeProto()
        copy.CopyFrom(draw.choice(source))
        attribute.CopyFrom(copy)
        attribute.name = name


def other_operator(model: onnx.ModelProto, other: onnx.ModelProto, draw: random.Random) -> None:
    """Replaces a node's operator, with or without its attributes."""
    found, source = _nodes(model), _nodes(other)
    if found and source:
        node, given = draw.choice(found), draw.choice(source)
        node.op_type, node.domain = given.op_type, given.domain
        if draw.random() < 0.6:
            attributes = [_copied(attribute) for attribute in given.attribute]
            del node.attribute[:]
            node.attribute.extend(attributes)
        _import_opsets(model, other)


def foreign_node(model: onnx.ModelProto, other: onnx.ModelProto, draw: random.Random) -> None:
    """Adds a node of another model that reads this one's values and gives an output."""
    source = _nodes(other)
    if not source:
        return
    node = _copied(draw.choice(source))
    values = _values(model) or [""]
    node.input[:] = [draw.choice(values) if name else "" for name in node.input]
    node.output[:] = [f"foreign_{index}" if name else "" for index, name in enumerate(node.output)]
    model.graph.node.append(node)
    if node.output and node.output[0]:
        model.graph.output.append(onnx.ValueInfoProto(name=node.output[0]))
    _import_opsets(model, other)


def chain(model: onnx.ModelProto, other: onnx.ModelProto, draw: random.Random) -> None:
    """Inserts a standard operator between a value and one of its readers."""
    nodes = [node for node in model.graph.node if node.input]
    if nodes:
        node = draw.choice(nodes)
        place = draw.randrange(len(node.input))
        op_type = draw.choice(
            ("Identity", "Cast", "Squeeze", "Shape", "Neg", "Not", "Constant", "Unsqueeze", "Size")
        )
        made = helper.make_node(op_type, [node.input[place]], ["chained"], name="chained")
        if op_type == "Cast":
            made.attribute.append(
                helper.make_attribute("to", draw.choice(list(TensorProto.DataType.values())))
            )
        node.input[place] = "chained"
        model.graph.node.insert(0, made)


def constant_input(model: onnx.ModelProto, other: onnx.ModelProto, draw: random.Random) -> None:
    """Replaces an input by a constant of any type and shape: unexpected axes, sizes and counts."""
    nodes = [node for node in _nodes(model) if node.input]
    if nodes:
        node = draw.choice(nodes)
        shape = draw.choice(((), (0,), (1,), (2,), (4,), (1, 1), (2, 3)))
        kind = draw.choice((1, 6, 7, 7, 7, 9, 10, 11, 3, 2, 8))
        count = 1
        for size in shape:
            count *= size
        numbers = [draw.choice((-1, 0, 1, 2, 3, 1 << 20)) if kind in (6, 7) else 1 for _ in range(count)]
        values: list[Any] = [b"text"] * count if kind == TensorProto.STRING else numbers
        tensor = helper.make_tensor("drawn", kind, shape, values)
        node.input[draw.randrange(len(node.input))] = "drawn"
        model.graph.initializer.append(tensor)


def end_of_range(model: onnx.ModelProto, other: onnx.ModelProto, draw: random.Random) -> None:
    """Sets an integer of a node, constant or input shape to one that a rule would have to unroll."""
    messages = messages_of(model)
    attributes = [a for a in messages.get("AttributeProto", []) if a.type in (a.INT, a.INTS)]
    tensors = [
        t for t in messages.get("TensorProto", []) if t.data_type == TensorProto.INT64 and t.ByteSize() < 4096
    ]
    dims = messages.get("Dimension", [])
    found = [kind for kind in (attributes, attributes, tensors, dims) if kind]
    if not found:
        return
    chosen, end = draw.choice(draw.choice(found)), draw.choice(ENDS)
    if isinstance(chosen, onnx.AttributeProto) and not chosen.ints:
        chosen.i = end
    elif isinstance(chosen, onnx.AttributeProto):
        chosen.ints[draw.randrange(len(chosen.ints))] = end
    elif isinstance(chosen, TensorProto):
        try:
            numbers = onnx.numpy_helper.to_array(chosen).copy()
        except Exception:  # changed before, so that it is no tensor any more
            return
        if numbers.size:
            numbers.reshape(-1)[draw.randrange(numbers.size)] = end
            chosen.CopyFrom(onnx.numpy_helper.from_array(numbers, chosen.name))
    else:
        chosen.dim_value = end


def plugin_node(model: onnx.ModelProto, other: onnx.ModelProto, draw: random.Random) -> None:
    """Turns a node into a Plugin node that names an operator, often its own, with its attributes as JSON."""
    nodes = _nodes(model)
    if not nodes:
        return
    node = draw.choice(nodes)
    name = draw.choice((node.op_type, node.op_type, draw.choice(nodes).op_type, "Split", "MReLU", "Plugin"))
    info = {
        a.name: a.i if a.type == a.INT else list(a.ints) for a in node.attribute if a.type in (a.INT, a.INTS)
    }
    if info and draw.random() < 0.5:
        info[draw.choice(sorted(info))] = draw.choice(ENDS)
    node.op_type = "Plugin"
    del node.attribute[:]
    node.attribute.append(helper.make_attribute("name", name))
    node.attribute.append(helper.make_attribute("info", json.dumps(info)))


def many(model: onnx.ModelProto, other: onnx.ModelProto, draw: random.Random) -> None:
    """Adds very many nodes, inputs or other parts."""
    count, thing = draw.choice((100, 1_000, 5_000)), draw.randrange(7)
    value = draw.choice(_values(model) or [""])
    if thing == 0:
        model.graph.node.extend(helper.make_node("Identity", [value], [f"many_{i}"]) for i in range(count))
        model.graph.output.extend(onnx.ValueInfoProto(name=f"many_{i}") for i in range(count))
    elif thing == 1:
        model.graph.node.append(helper.make_node("Sum", [value] * count, ["many"]))
        model.graph.output.append(onnx.ValueInfoProto(name="many"))
    elif thing == 2:
        model.graph.node.append(helper.make_node("Split", [value], [f"many_{i}" for i in range(count)]))
        model.graph.output.append(onnx.ValueInfoProto(name="many_0"))
    elif thing == 3:
        model.graph.input.extend(helper.make_tensor_value_info(f"many_{i}", 1, [1]) for i in range(count))
    elif thing == 4:
        model.graph.value_info.extend(
            helper.make_tensor_value_info(f"many_{i}", 1, [1]) for i in range(count)
        )
    elif thing == 5:
        model.metadata_props.extend(
            onnx.StringStringEntryProto(key=f"many_{i}", value="v") for i in range(count)
        )
    else:
        model.graph.initializer.extend(
            TensorProto(name=f"many_{i}", data_type=1, dims=[1], float_data=[1]) for i in range(count)
        )


def run_time_input(model: onnx.ModelProto, other: onnx.ModelProto, draw: random.Random) -> None:
    """Turns a constant into an input of the model."""
    graph = model.graph
    if graph.initializer:
        place = draw.randrange(len(graph.initializer))
        tensor = graph.initializer[place]
        dims: list[Any] | None = draw.choice((list(tensor.dims), ["n"] * len(tensor.dims), None))
        graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, dims))
        if draw.random() < 0.8:
            del graph.initializer[place]


def unknown_dims(model: onnx.ModelProto, other: onnx.ModelProto, draw: random.Random) -> None:
    """Removes the shapes or ranks of inputs."""
    for value in model.graph.input:
        tensor = value.type.tensor_type
        if draw.random() < 0.3:
            tensor.ClearField("shape")
        for dim in tensor.shape.dim:
            if draw.random() < 0.5:
                dim.dim_param = draw.choice(("n", "m", "?"))


def subgraph(model: onnx.ModelProto, other: onnx.ModelProto, draw: random.Random) -> None:
    """Adds or removes a value at a body's interface, or replaces the body by another."""
    bodies = [a.g for a in messages_of(model).get("AttributeProto", []) if a.HasField("g")]
    if not bodies:
        return
    body = draw.choice(bodies)
    what = draw.randrange(5)
    if what == 0 and body.output:
        del body.output[draw.randrange(len(body.output))]
    elif what == 1 and body.input:
        del body.input[draw.randrange(len(body.input))]
    elif what == 2:
        body.input.append(onnx.ValueInfoProto(name="more"))
    elif what == 3 and body.output:
        body.output.append(onnx.ValueInfoProto(name=body.output[0].name))
    else:
        copy = onnx.GraphProto()
        copy.CopyFrom(draw.choice(bodies))
        body.CopyFrom(copy)


def nest(model: onnx.ModelProto, other: onnx.ModelProto, draw: random.Random) -> None:
    """Nests Ifs to any depth."""
    graph = onnx.GraphProto(name="innermost", output=[onnx.ValueInfoProto(name="deep")])
    graph.node.append(helper.make_node("Constant", [], ["deep"], value_float=1.0))
    condition = next((value.name for value in model.graph.input), "")
    for _ in range(draw.choice((1, 3, 12, 30))):
        node = helper.make_node("If", [condition], ["deep"])
        node.attribute.append(
            onnx.AttributeProto(name="then_branch", g=graph, type=onnx.AttributeProto.GRAPH)
        )
        if draw.random() < 0.9:
            other_branch = onnx.GraphProto(name="else", output=[onnx.ValueInfoProto(name="flat")])
            other_branch.node.append(helper.make_node("Constant", [], ["flat"], value_float=1.0))
            node.attribute.append(
                onnx.AttributeProto(name="else_branch", g=other_branch, type=onnx.AttributeProto.GRAPH)
            )
        graph = onnx.GraphProto(name="outer", node=[node], output=[onnx.ValueInfoProto(name="deep")])
    model.graph.node.append(graph.node[0])


def function(model: onnx.ModelProto, other: onnx.ModelProto, draw: random.Random) -> None:
    """Adds a function with the name of an operator in use; its body may call itself."""
    nodes = _nodes(model)
    if not nodes:
        return
    node = draw.choice(nodes)
    made = onnx.FunctionProto(name=node.op_type, domain=node.domain)
    made.input.extend(f"i{index}" for index in range(max(0, len(node.input) + draw.choice((0, 0, 0, -1, 1)))))
    made.output.extend(f"o{index}" for index in range(len(node.output)))
    made.attribute.extend(a.name for a in node.attribute)
    made.opset_import.extend(model.opset_import)
    inner = draw.choice(nodes)
    call = onnx.NodeProto(op_type=draw.choice((node.op_type, "Identity", inner.op_type)), domain=inner.domain)
    call.input.extend(made.input)
    call.output.extend(made.output)
    for attribute in node.attribute:
        call.attribute.append(
            onnx.AttributeProto(name=attribute.name, ref_attr_name=attribute.name, type=attribute.type)
        )
    made.node.append(call)
    model.functions.append(made)


def external(model: onnx.ModelProto, other: onnx.ModelProto, draw: random.Random) -> None:
    """Makes a tensor claim external data."""
    tensors = messages_of(model).get("TensorProto", [])
    if tensors:
        tensor = draw.choice(tensors)
        for field in ("raw_data", "float_data", "int64_data", "int32_data"):
            if draw.random() < 0.9:
                tensor.ClearField(field)
        tensor.data_location = TensorProto.EXTERNAL
        for key, values in (
            (
                "location",
                ("weights.bin", "../weights.bin", "/etc/passwd", "", ".", "model.onnx", "a\0b", "x" * 300),
            ),
            ("offset", ("0", "-1", "4", "9" * 18, "x", "")),
            ("length", ("0", "4", "-4", "9" * 18, "x", "")),
        ):
            if draw.random() < 0.8:
                tensor.external_data.add(key=key, value=draw.choice(values))


def opset(model: onnx.ModelProto, other: onnx.ModelProto, draw: random.Random) -> None:
    """Imports another version of a domain."""
    if model.opset_import:
        draw.choice(model.opset_import).version = draw.choice((*range(1, 28), 0, -1, 1 << 31, (1 << 63) - 1))


def splice(model: onnx.ModelProto, other: onnx.ModelProto, draw: random.Random) -> None:
    """Adds the whole of another graph beside this one's."""
    if len(other.graph.node) < 50:
        model.graph.node.extend(_copied(node) for node in other.graph.node)
        model.graph.input.extend(_copied(value) for value in other.graph.input)
        model.graph.initializer.extend(_copied(tensor) for tensor in other.graph.initializer)
        _import_opsets(model, other)


def _import_opsets(model: onnx.ModelProto, other: onnx.ModelProto) -> None:
    known = {entry.domain for entry in model.opset_import}
    model.opset_import.extend(_copied(entry) for entry in other.opset_import if entry.domain not in known)


def _copied(message: Any) -> Any:
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


GRAPH_CHANGES: tuple[GraphChange, ...] = (
    rewire,
    drop_attribute,
    other_attribute,
    other_operator,
    foreign_node,
    chain,
    constant_input,
    run_time_input,
    unknown_dims,
    subgraph,
    nest,
    function,
    external,
    opset,
    splice,
    end_of_range,
    plugin_node,
    many,
)
