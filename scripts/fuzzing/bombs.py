"""Writes small models that ask for much: memory, time or depth that grows beyond all measure with the size of the file.

A family is a function that draws one model. The growth is drawn, so that models lie on both sides of every limit.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

LARGEST = 1_000_000
"""Bytes of a model that has to end in the time and memory of all models."""

_FOLLOWERS = ("Add", "Mul", "Sub", "Cast", "Relu", "Slice", "Concat", "Gather", "Neg")
_NEEDED: Mapping[str, Mapping[str, int]] = {"Concat": {"axis": 0}, "Cast": {"to": TensorProto.INT64}}
"""Attributes without which an operator is none."""

_DOMAIN = "bombs"


def constant_of_shape(draw: random.Random) -> ModelProto:
    """A few sizes in a constant, and a tensor of so many elements."""
    sizes = [draw.choice((1, 2, 1 << 10, 1 << 20, 1 << 31, 1 << 40)) for _ in range(draw.randint(1, 3))]
    return _followed(draw, [_node("ConstantOfShape", ["sizes"], ["v"])], {"sizes": sizes})


def range_(draw: random.Random) -> ModelProto:
    """A vector of as many numbers as there are between two constants."""
    values = {
        "start": draw.choice((0, -(1 << 40))),
        "limit": 1 << draw.randint(16, 62),
        "delta": draw.choice((1, 3)),
    }
    nodes = [_node("Range", list(values), ["v"])]
    return _followed(draw, nodes, {name: np.int64(value) for name, value in values.items()})


def concat_doubling(draw: random.Random) -> ModelProto:
    """Each Concat joins what the one before it made, some times."""
    axis, ways = 0, draw.choice((2, 2, 3, 8))
    nodes = [_node("Identity", ["x"], ["c0"])]
    count = draw.randint(8, 80)
    for index in range(count):
        nodes.append(_node("Concat", [f"c{index}"] * ways, [f"c{index + 1}"], axis=axis))
    nodes.append(_node("Identity", [f"c{count}"], ["v"]))
    if draw.random() < 0.5:  # of sizes that a graph computes, or of a constant
        nodes[0] = _node("Shape", ["input"], ["c0"])
    return _followed(draw, nodes, {"x": [1, 2]})


def broadcast(draw: random.Random) -> ModelProto:
    """Expand or Tile makes much of one element."""
    rank = draw.randint(1, 4)
    sizes = [1 << draw.choice((0, 4, 16, 31, 40)) for _ in range(rank)]
    nodes = [_node(draw.choice(("Expand", "Tile")), ["one", "sizes"], ["v"])]
    one = np.ones([1] * rank, draw.choice((np.float32, np.int64)))
    return _followed(draw, nodes, {"one": one, "sizes": sizes})


def pad(draw: random.Random) -> ModelProto:
    """Much of nothing around one element."""
    size = 1 << draw.choice((8, 24, 31, 50))
    nodes = [_node("Pad", ["one", "pads"], ["v"])]
    return _followed(draw, nodes, {"one": np.ones(1, np.int64), "pads": [0, size]})


def resize(draw: random.Random) -> ModelProto:
    """A small image, many times as large."""
    scale = float(1 << draw.choice((4, 12, 20, 30)))
    image = np.ones((1, 1, 2, 2), np.float32)
    if draw.random() < 0.5:
        nodes = [_node("Upsample", ["image", "scales"], ["v"])]
        return _followed(
            draw, nodes, {"image": image, "scales": np.array([1, 1, scale, scale], np.float32)}, 9
        )
    nodes = [_node("Resize", ["image", "", "scales"], ["v"])]
    return _followed(draw, nodes, {"image": image, "scales": np.array([1, 1, scale, scale], np.float32)})


def one_hot(draw: random.Random) -> ModelProto:
    """A depth that a constant gives."""
    values = {"ids": [0, 1], "depth": np.int64(1 << draw.choice((8, 24, 31, 40))), "pair": [0, 1]}
    return _followed(draw, [_node("OneHot", list(values), ["v"])], values)


def random_values(draw: random.Random) -> ModelProto:
    """Random numbers of a shape that an attribute has; and windows that are as long."""
    if draw.random() < 0.3:
        nodes = [_node(draw.choice(("HannWindow", "HammingWindow")), ["size"], ["v"])]
        return _followed(draw, nodes, {"size": np.int64(1 << draw.choice((10, 24, 40)))})
    shape = [1 << draw.choice((10, 20, 30)) for _ in range(draw.randint(1, 3))]
    nodes = [_node(draw.choice(("RandomNormal", "RandomUniform")), [], ["v"], shape=shape)]
    return _followed(draw, nodes, {})


def flattened(draw: random.Random) -> ModelProto:
    """An input of two large sizes as one vector."""
    sizes = [1 << draw.choice((8, 16, 20, 31)) for _ in range(2)]
    nodes = [_node("Reshape", ["big", "all"], ["v"])]
    return _followed(draw, nodes, {"all": [-1]}, given={"big": sizes})


def computed_sizes(draw: random.Random) -> ModelProto:
    """Sizes that are multiplied, step by step, before a tensor has them."""
    steps = draw.randint(1, 60)
    nodes = [_node("Shape", ["input"], ["s0"])]
    nodes += [
        _node(draw.choice(("Mul", "Add")), [f"s{i}", draw.choice((f"s{i}", "n"))], [f"s{i + 1}"])
        for i in range(steps)
    ]
    nodes.append(_node(draw.choice(("ConstantOfShape", "Expand")), [f"s{steps}"], ["v"]))
    if nodes[-1].op_type == "Expand":
        nodes[-1].input.insert(0, "one")
    return _followed(draw, nodes, {"n": [1 << draw.choice((1, 4, 16))], "one": [1]}, given={"input": [3]})


def many_ranks(draw: random.Random) -> ModelProto:
    """Each Unsqueeze adds dimensions to those that are there."""
    count, width = draw.choice((100, 4_000, 20_000)), draw.choice((1, 8, 60))
    nodes = [_node("Unsqueeze", [f"u{i}", "axes"], [f"u{i + 1}"]) for i in range(count)]
    nodes.append(_node("Identity", [f"u{count}"], ["v"]))
    return _followed(draw, nodes, {"u0": np.float32(1), "axes": list(range(width))})


def long_constants(draw: random.Random) -> ModelProto:
    """A long constant of small numbers, read by many nodes."""
    length, readers = draw.choice((1 << 10, 1 << 16, 300_000)), draw.choice((10, 1_000, 8_000))
    kind = draw.choice(("Add", "Reshape", "Cast", "Concat", "Squeeze", "ConstantOfShape"))
    nodes = []
    for index in range(readers):
        name = f"v{index}" if index else "v"
        inputs = {
            "Add": ["x", "x"],
            "Reshape": ["input", "x"],
            "Concat": ["x", "x"],
            "Squeeze": ["input", "x"],
        }
        more = _NEEDED.get(kind, {})
        nodes.append(_node(kind, inputs.get(kind, ["x"]), [name], **more))
    model = _followed(draw, nodes, {})
    model.graph.initializer.append(
        TensorProto(name="x", data_type=TensorProto.INT64, dims=[length], int64_data=[1] * length)
    )
    return model


def nested_control(draw: random.Random) -> ModelProto:
    """Loops, branches and scans in each other, as deep as protobuf reads."""
    depth = draw.choice((3, 8, 16, 24))
    kinds = draw.choice((("Loop",), ("If",), ("Scan",), ("Loop", "If", "Scan")))
    wide = draw.choice((1, 1, 2))
    budget = [3_000]

    def body(level: int) -> tuple[list[NodeProto], str]:
        name = f"n{budget[0]}"
        budget[0] -= 1
        if level == 0 or budget[0] < 0:
            return [_node("Add", ["x", "x"], [name])], name
        nodes = []
        for place in range(wide):
            inner, result = body(level - 1)
            out = f"{name}_{place}"
            nodes.append(_control(draw.choice(kinds), inner, result, out))
        return nodes, f"{name}_0"

    nodes, result = body(depth)
    trips = 1 << draw.choice((1, 20, 40))
    constants = {
        "x": np.float32(1),
        "trips": np.int64(trips),
        "yes": np.bool_(True),
        "xs": np.ones((4, 1), np.float32),
    }
    return _model([*nodes, _node("Identity", [result], ["output"])], constants, {})


def endless_loop(draw: random.Random) -> ModelProto:
    """A Loop of constants alone, of more runs than anybody waits for."""
    body = GraphProto(name="body")
    body.input.extend(
        [_value("i", TensorProto.INT64, []), _value("go", TensorProto.BOOL, []), _value("s", 1, [])]
    )
    body.node.extend([_node("Identity", ["go"], ["on"]), _node("Add", ["s", "s"], ["t"])])
    body.output.extend([_value("on", TensorProto.BOOL, []), _value("t", 1, [])])
    nodes = [_node("Loop", ["trips", "yes", "x"], ["output"], body=body)]
    constants = {"trips": np.int64(1 << draw.choice((30, 62))), "yes": np.bool_(True), "x": np.float32(1)}
    return _model(nodes, constants, {})


def doubling_functions(draw: random.Random) -> ModelProto:
    """Each function calls the one before it, some times: laughing, where all calls do nothing."""
    return _functions(draw, draw.randint(4, 70), draw.choice((2, 2, 3, 10)))


def chain_of_functions(draw: random.Random) -> ModelProto:
    """Each function calls the next one, once."""
    return _functions(draw, draw.choice((20, 90, 150, 1_000, 9_000)), 1)


def recursion(draw: random.Random) -> ModelProto:
    """Functions that call themselves, through others."""
    count = draw.choice((1, 2, 50))
    model = _functions(draw, count, draw.choice((1, 2)))
    model.functions[0].node[0].op_type = f"f{count - 1}"
    model.functions[0].node[0].domain = _DOMAIN
    return model


def many_nodes(draw: random.Random) -> ModelProto:
    """As many nodes as fit, in a row or side by side."""
    return rows_of_nodes(
        draw.choice((1_000, 20_000, 35_000)),
        draw.choice(("Abs", "Add", "Identity", "Cast", "Shape", "Concat")),
        side_by_side=draw.random() < 0.4,
    )


def rows_of_nodes(count: int, op_type: str, *, side_by_side: bool = False) -> ModelProto:
    """A model of so many nodes of one operator. side_by_side: all read the input."""
    nodes = []
    for index in range(count):
        read = "input" if side_by_side or not index else f"{index - 1:x}"
        more = _NEEDED.get(op_type, {})
        nodes.append(
            _node(op_type, [read, read] if op_type in ("Add", "Concat") else [read], [f"{index:x}"], **more)
        )
    nodes.append(_node("Identity", [f"{count - 1:x}"], ["output"]))
    return _model(nodes, {}, {"input": [3]})


def many_initializers(draw: random.Random) -> ModelProto:
    """As many constants as fit, read by few nodes or none."""
    model = _model([_node("Identity", ["input"], ["output"])], {}, {"input": [3]})
    for index in range(draw.choice((1_000, 20_000, 60_000))):
        tensor = model.graph.initializer.add(name=f"{index:x}", data_type=TensorProto.INT64)
        if draw.random() < 0.5:
            tensor.dims.append(0)
        else:
            tensor.int64_data.append(1)
    if draw.random() < 0.5:
        model.graph.node.insert(0, _node("Sum", [tensor.name for tensor in model.graph.initializer], ["sum"]))
    return model


def huge_strings(draw: random.Random) -> ModelProto:
    """One name of most of the file, which many messages or values repeat."""
    long, count = "n" * draw.choice((10_000, 300_000, 900_000)), draw.choice((1, 300, 3_000))
    nodes = [_node("Relu", ["input"], ["v"])]
    nodes += [_node("Relu", ["v"], [f"r{i}"]) for i in range(count)]
    where = draw.choice(("symbol", "value", "operator", "node", "domain", "string", "function"))
    model = _model([*nodes, _node("Identity", ["v"], ["output"])], {}, {"input": [3, 4]})
    if where == "symbol":
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = long
    elif where == "value":
        model.graph.node[1].output[0] = long
    elif where == "operator":
        model.graph.node[1].op_type = long
    elif where == "node":
        model.graph.node[1].name = long
    elif where == "domain":
        model.graph.node[1].domain = long
        model.opset_import.add(domain=long, version=1)
    elif where == "string":
        model.graph.node[1].attribute.append(helper.make_attribute("text", long))
    else:
        called = _function(long[: len(long) // 3], [_node("Relu", ["x"], ["y"])])
        model.functions.append(called)
        for node in model.graph.node[1:4]:
            node.op_type, node.domain = called.name, _DOMAIN
        model.opset_import.add(domain=_DOMAIN, version=1)
    return model


def nested_types(draw: random.Random) -> ModelProto:
    """Sequences of sequences, and shapes of very many dimensions."""
    model = rows_of_nodes(draw.choice((1, 100, 5_000)), "Abs")
    type_ = model.graph.input[0].type
    if draw.random() < 0.5:
        for _ in range(draw.choice((10, 25))):
            deeper = onnx.TypeProto()
            deeper.sequence_type.elem_type.CopyFrom(type_)
            type_.CopyFrom(deeper)
    else:
        type_.tensor_type.shape.dim.extend(
            onnx.TensorShapeProto.Dimension(dim_value=1) for _ in range(draw.choice((30, 1_000, 100_000)))
        )
    return model


FAMILIES: tuple[Callable[[random.Random], ModelProto], ...] = (
    constant_of_shape,
    range_,
    concat_doubling,
    broadcast,
    pad,
    resize,
    one_hot,
    random_values,
    flattened,
    computed_sizes,
    many_ranks,
    long_constants,
    nested_control,
    endless_loop,
    doubling_functions,
    chain_of_functions,
    recursion,
    many_nodes,
    many_initializers,
    huge_strings,
    nested_types,
)


def drawn_bomb(draw: random.Random) -> tuple[str, bytes]:
    """A model of a family that is drawn, below the size, and the family's name."""
    while True:
        family = draw.choice(FAMILIES)
        data = bytes(family(draw).SerializeToString())
        if len(data) < LARGEST:
            return family.__name__.strip("_"), data


def named_bombs() -> dict[str, bytes]:
    """The models with which these limits began, as small as they were."""
    draw = random.Random(0)
    size = {"sizes": [1 << 31]}
    cast = [_node("Cast", ["v"], ["output"], to=TensorProto.INT64)]
    models = {
        "constant_of_shape": _model([_node("ConstantOfShape", ["sizes"], ["v"]), *cast], size, {}),
        "range": _model(
            [_node("Range", ["a", "b", "c"], ["v"]), *cast],
            {"a": np.int64(0), "b": np.int64(1 << 31), "c": np.int64(1)}, {},
        ),
        "concat_doubling": _model(
            [*(_node("Concat", [f"c{i}", f"c{i}"], [f"c{i + 1}"], axis=0) for i in range(60)),
             _node("ConstantOfShape", ["c60"], ["output"])], {"c0": [1, 1]}, {},
        ),
        "doubling_functions": _functions(draw, 18, 2),
        "laughing_functions": _functions(draw, 60, 10),
        "chain_of_functions": _functions(draw, 5_000, 1),
    }  # fmt: skip
    return {name: bytes(model.SerializeToString()) for name, model in models.items()}


def _node(op_type: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> NodeProto:
    return helper.make_node(op_type, inputs, outputs, **attributes)


def _value(name: str, elem_type: int, shape: Sequence[int] | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, elem_type, shape)


def _followed(
    draw: random.Random,
    nodes: Sequence[NodeProto],
    constants: Mapping[str, object],
    opset: int = 17,
    given: Mapping[str, Sequence[int]] | None = None,
) -> ModelProto:
    """The nodes, which make `v`, and one behind them that reads it; or that makes of it what has sizes of its values."""
    kind = draw.choice((*_FOLLOWERS, "ConstantOfShape"))
    more = _NEEDED.get(kind, {})
    inputs = {"Slice": ["v", "zero", "two"], "Gather": ["v", "zero"], "ConstantOfShape": ["last"]}
    behind = [_node("Cast", ["v"], ["last"], to=TensorProto.INT64)] if kind == "ConstantOfShape" else []
    last = _node(
        kind,
        inputs.get(kind, ["v", "v"] if kind in ("Add", "Mul", "Sub", "Concat") else ["v"]),
        ["output"],
        **more,
    )
    extra = {"zero": [0], "two": [2]} if kind in ("Slice", "Gather") else {}
    return _model([*nodes, *behind, last], {**constants, **extra}, given or {"input": [1, 3, 8, 8]}, opset)


def _model(
    nodes: Sequence[NodeProto],
    constants: Mapping[str, object],
    given: Mapping[str, Sequence[int]],
    opset: int = 17,
) -> ModelProto:
    graph = helper.make_graph(
        list(nodes),
        "bomb",
        [_value(name, TensorProto.FLOAT, list(shape)) for name, shape in given.items()],
        [onnx.ValueInfoProto(name="output")],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    return helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", opset)])


def _control(kind: str, nodes: Sequence[NodeProto], result: str, output: str) -> NodeProto:
    """A node around a graph of these nodes, which read what is outside."""
    body = GraphProto(name="body", node=nodes)
    if kind == "If":
        body.output.append(onnx.ValueInfoProto(name=result))
        other = GraphProto(name="other", node=[_node("Identity", ["x"], [f"{result}e"])])
        other.output.append(onnx.ValueInfoProto(name=f"{result}e"))
        return _node("If", ["yes"], [output], then_branch=body, else_branch=other)
    if kind == "Loop":
        body.input.extend(
            [_value(f"{output}i", TensorProto.INT64, []), _value(f"{output}g", TensorProto.BOOL, [])]
        )
        body.input.append(_value(f"{output}s", TensorProto.FLOAT, None))
        body.node.append(_node("Identity", [f"{output}g"], [f"{output}o"]))
        body.node.append(_node("Add", [result, f"{output}s"], [f"{output}t"]))
        body.output.extend(
            [_value(f"{output}o", TensorProto.BOOL, []), onnx.ValueInfoProto(name=f"{output}t")]
        )
        return _node("Loop", ["trips", "yes", "x"], [output], body=body)
    body.input.extend(
        [_value(f"{output}s", TensorProto.FLOAT, None), _value(f"{output}e", TensorProto.FLOAT, None)]
    )
    body.node.append(_node("Add", [result, f"{output}s"], [f"{output}t"]))
    body.output.append(onnx.ValueInfoProto(name=f"{output}t"))
    return _node("Scan", ["x", "xs"], [output], body=body, num_scan_inputs=1)


def _function(name: str, nodes: Sequence[NodeProto]) -> onnx.FunctionProto:
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(_DOMAIN, 1)]
    return helper.make_function(_DOMAIN, name, ["x"], ["y"], list(nodes), imports)


def _functions(draw: random.Random, count: int, ways: int) -> ModelProto:
    """A function for each level, which calls that of the level below in a row, or side by side."""
    row = draw.random() < 0.5
    functions = [_function("f0", [_node("Relu", ["x"], ["y"])])]
    for level in range(1, count):
        calls = []
        for way in range(ways):
            read = f"r{way - 1}" if row and way else "x"
            made = "y" if way == ways - 1 else f"r{way}"
            calls.append(helper.make_node(f"f{level - 1}", [read], [made], domain=_DOMAIN))
        functions.append(_function(f"f{level}", calls))
    model = _model(
        [helper.make_node(f"f{count - 1}", ["input"], ["output"], domain=_DOMAIN)], {}, {"input": [3]}
    )
    model.opset_import.add(domain=_DOMAIN, version=1)
    model.functions.extend(functions)
    return model
