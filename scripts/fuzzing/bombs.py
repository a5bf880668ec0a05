"""Writes small models whose memory, time or depth grows without bound relative to the size of the file.

A family is a function that draws one model. The growth is drawn, so that models lie on both sides of every limit.
"""

from __future__ import annotations

import json
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
    """A tensor whose huge sizes are a constant."""
    sizes = [draw.choice((1, 2, 1 << 10, 1 << 20, 1 << 31, 1 << 40)) for _ in range(draw.randint(1, 3))]
    return _followed(draw, [_node("ConstantOfShape", ["sizes"], ["v"])], {"sizes": sizes})


def range_(draw: random.Random) -> ModelProto:
    """A Range between two distant constants."""
    values = {
        "start": draw.choice((0, -(1 << 40))),
        "limit": 1 << draw.randint(16, 62),
        "delta": draw.choice((1, 3)),
    }
    nodes = [_node("Range", list(values), ["v"])]
    return _followed(draw, nodes, {name: np.int64(value) for name, value in values.items()})


def concat_doubling(draw: random.Random) -> ModelProto:
    """Concats that each join the result of the one before several times."""
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
    """An Expand or Tile of one element to a huge shape."""
    rank = draw.randint(1, 4)
    sizes = [1 << draw.choice((0, 4, 16, 31, 40)) for _ in range(rank)]
    nodes = [_node(draw.choice(("Expand", "Tile")), ["one", "sizes"], ["v"])]
    one = np.ones([1] * rank, draw.choice((np.float32, np.int64)))
    return _followed(draw, nodes, {"one": one, "sizes": sizes})


def pad(draw: random.Random) -> ModelProto:
    """A huge Pad around one element."""
    size = 1 << draw.choice((8, 24, 31, 50))
    nodes = [_node("Pad", ["one", "pads"], ["v"])]
    return _followed(draw, nodes, {"one": np.ones(1, np.int64), "pads": [0, size]})


def resize(draw: random.Random) -> ModelProto:
    """A Resize of a small image by a huge factor."""
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
    """A OneHot of a huge constant depth."""
    values = {"ids": [0, 1], "depth": np.int64(1 << draw.choice((8, 24, 31, 40))), "pair": [0, 1]}
    return _followed(draw, [_node("OneHot", list(values), ["v"])], values)


def random_values(draw: random.Random) -> ModelProto:
    """Random tensors of a huge shape, or windows as long."""
    if draw.random() < 0.3:
        nodes = [_node(draw.choice(("HannWindow", "HammingWindow")), ["size"], ["v"])]
        return _followed(draw, nodes, {"size": np.int64(1 << draw.choice((10, 24, 40)))})
    shape = [1 << draw.choice((10, 20, 30)) for _ in range(draw.randint(1, 3))]
    nodes = [_node(draw.choice(("RandomNormal", "RandomUniform")), [], ["v"], shape=shape)]
    return _followed(draw, nodes, {})


def flattened(draw: random.Random) -> ModelProto:
    """A Flatten of an input with two large sizes."""
    sizes = [1 << draw.choice((8, 16, 20, 31)) for _ in range(2)]
    nodes = [_node("Reshape", ["big", "all"], ["v"])]
    return _followed(draw, nodes, {"all": [-1]}, given={"big": sizes})


def computed_sizes(draw: random.Random) -> ModelProto:
    """A tensor whose sizes are products computed step by step."""
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
    """Unsqueezes that each add dimensions."""
    count, width = draw.choice((100, 4_000, 20_000)), draw.choice((1, 8, 60))
    nodes = [_node("Unsqueeze", [f"u{i}", "axes"], [f"u{i + 1}"]) for i in range(count)]
    nodes.append(_node("Identity", [f"u{count}"], ["v"]))
    return _followed(draw, nodes, {"u0": np.float32(1), "axes": list(range(width))})


def long_constants(draw: random.Random) -> ModelProto:
    """A long constant of small numbers with many readers."""
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
    """Loops, branches and scans, nested as deeply as protobuf reads."""
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
    """A Loop over constants with an absurd trip count."""
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
    """Functions that each call the previous one several times: a "billion laughs" if all calls do nothing."""
    return _functions(draw, draw.randint(4, 70), draw.choice((2, 2, 3, 10)))


def chain_of_functions(draw: random.Random) -> ModelProto:
    """Functions that each call the next one once."""
    return _functions(draw, draw.choice((20, 90, 150, 1_000, 9_000)), 1)


def recursion(draw: random.Random) -> ModelProto:
    """Functions that call themselves through others."""
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
    """A model of `count` nodes of one operator. side_by_side: all read the input."""
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
    """As many constants as fit, with few readers or none."""
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
    """A name that fills most of the file and that many messages or values repeat."""
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


ENDS = (1 << 10, 1 << 14, 65_536, 65_537, 1 << 20, 1 << 26, (1 << 31) - 1, 1 << 31, 1 << 40, (1 << 62) - 1)
"""Values of attributes and sizes that a rule would have to unroll, or make a matrix of."""


_INT32 = (1 << 31) - 1


def end_of_range(draw: random.Random) -> ModelProto:
    """Nodes of an operator that rules unroll into as many nodes or numbers as a value says."""
    made = draw.choice(tuple(UNROLLED.values()))(draw.choice(ENDS))
    for _ in range(draw.choice((0, 0, 0, 5, 100))):
        made.graph.node.append(made.graph.node[0])
        made.graph.node[-1].output[:] = [
            f"{name}{len(made.graph.node)}" for name in made.graph.node[0].output
        ]
        made.graph.output.append(onnx.ValueInfoProto(name=made.graph.node[-1].output[0]))
    return made


def _window(op_type: str, axes: int = 2, **more: Any) -> Callable[[int], ModelProto]:
    """A pooling with such a large first window."""

    def made(end: int) -> ModelProto:
        kernel = [end, *[1] * (axes - 1)]
        return _one(
            _node(op_type, ["x"], ["output"], kernel_shape=kernel, **more),
            {"x": [1, 1, end * 3, *[3] * (axes - 1)]},
        )

    return made


def _one(
    node: NodeProto,
    given: Mapping[str, Sequence[int]],
    constants: Mapping[str, object] | None = None,
    opset: int = 18,
) -> ModelProto:
    held = {}
    for name, shape in given.items():  # sizes that no machine holds are refused when the model is read
        most = 1 << 56 // max(sum(size > 16 for size in shape), 1)
        held[name] = [min(size, most) for size in shape]
    return _model([node], constants or {}, held, opset)


def _scan(end: int) -> ModelProto:
    """A Scan over a long sequence of sizes that TensorRT cannot turn into tensors in a loop."""
    body = GraphProto(name="body", node=_sum_of_as_many("e"))
    body.input.append(_value("e", TensorProto.INT64, [1]))
    body.output.append(onnx.ValueInfoProto(name="t"))
    model = _one(
        _node("Scan", ["x"], ["output"], body=body, num_scan_inputs=1), {"x": [end, 1]}, {"one": [1.0]}
    )
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.INT64
    return model


def _loop(end: int) -> ModelProto:
    """A Loop of this many runs, which makes tensors with as many elements as runs so far."""
    body = GraphProto(name="body", node=[_node("Identity", ["go"], ["on"]), *_sum_of_as_many("i")])
    body.input.extend([_value("i", TensorProto.INT64, []), _value("go", TensorProto.BOOL, [])])
    body.output.extend(onnx.ValueInfoProto(name=name) for name in ("on", "t"))
    constants = {"trips": np.int64(end), "one": [1.0]}
    return _one(_node("Loop", ["trips", ""], ["output"], body=body), {"x": [2]}, constants)


def _mel(bins: int, points: int) -> ModelProto:
    numbers = {"bins": np.int64(bins), "points": np.int64(points), "rate": np.int64(8000)}
    numbers |= {"low": np.float32(0), "high": np.float32(4000)}
    return _one(_node("MelWeightMatrix", list(numbers), ["output"]), {}, numbers)


def _sum_of_as_many(size: str) -> list[NodeProto]:
    """`t`, the sum of as many elements as a value says."""
    return [
        _node("Constant", [], ["flat"], value_ints=[1]),
        _node("Reshape", [size, "flat"], ["sizes"]),
        _node("Expand", ["one", "sizes"], ["many"]),
        _node("ReduceSum", ["many"], ["t"], keepdims=0),
    ]


def _declared(made: ModelProto, shape: Sequence[int]) -> ModelProto:
    """Adds the output's shape, which the operator leaves open."""
    elem = {"NonMaxSuppression": TensorProto.INT64}.get(made.graph.node[0].op_type, TensorProto.FLOAT)
    made.graph.output[0].CopyFrom(_value("output", elem, shape))
    if made.graph.node[0].op_type == "Compress":
        made.graph.input[1].type.tensor_type.elem_type = TensorProto.BOOL
    return made


def _two_outputs(made: ModelProto) -> ModelProto:
    """Makes the node's second output an output of the model, too."""
    made.graph.output.append(onnx.ValueInfoProto(name=made.graph.node[0].output[1]))
    return made


UNROLLED: Mapping[str, Callable[[int], ModelProto]] = {
    "LRN": lambda end: _one(_node("LRN", ["x"], ["output"], size=end), {"x": [1, 3, 8, 8]}),
    "LpPool": _window("LpPool", p=3),
    "LpPool-1d": _window("LpPool", 1),
    "AveragePool": lambda end: _one(
        _node("AveragePool", ["x"], ["output"], kernel_shape=[end, 1], dilations=[2, 2]),
        {"x": [1, 1, end * 3, 9]}, opset=19),
    "AveragePool-counts": lambda end: _one(
        _node("AveragePool", ["x"], ["output"], kernel_shape=[2, 2], dilations=[2, 2], pads=[1, 0, 1, 0]),
        {"x": [1, 1, end, 9]}, opset=19),
    "AveragePool-dilation": lambda end: _one(
        _node("AveragePool", ["x"], ["output"], kernel_shape=[2, 2], dilations=[min(end, _INT32), 1], pads=[1, 0, 1, 0]),
        {"x": [1, 1, end * 2, 9]}, opset=19),
    "MaxPool": _window("MaxPool", dilations=[2, 2]),
    "MaxPool-4d": _window("MaxPool", 4),
    "MaxPool-indices": lambda end: _two_outputs(_one(
        _node("MaxPool", ["x"], ["output", "places"], kernel_shape=[2, 2]), {"x": [1, 1, end, end]})),
    "MaxPool-channels": lambda end: _two_outputs(_one(
        _node("MaxPool", ["x"], ["output", "places"], kernel_shape=[2]), {"x": [1, end, 4]})),
    "Col2Im": lambda end: _one(_node("Col2Im", ["x", "image", "block"], ["output"]), {"x": [1, end, 1]},
                               {"image": [1, end], "block": [1, end]}),
    "Resize": lambda end: _one(
        _node("Resize", ["x", "", "", "sizes"], ["output"], mode="cubic", antialias=1), {"x": [1, 1, end, end]},
        {"sizes": [1, 1, max(end // 2, 1), 3]}),
    "Resize-up": lambda end: _one(
        _node("Resize", ["x", "", "scales"], ["output"], mode="linear",
              coordinate_transformation_mode="half_pixel_symmetric"),
        {"x": [1, 1, 3, 3]}, {"scales": np.array([1, 1, end, 1], np.float32)}, 19),
    "MelWeightMatrix": lambda end: _mel(end, end),
    "MelWeightMatrix-points": lambda end: _mel(2, end),
    "ConvTranspose": lambda end: _one(
        _node("ConvTranspose", ["x", "w"], ["output"], dilations=[min(end, _INT32)] * 2, strides=[2, 2]),
        {"x": [1, 1, 8, 8]},
        {"w": np.ones((1, 1, 2, 2), np.float32)}),
    "DFT": lambda end: _one(_node("DFT", ["x"], ["output"], axis=1), {"x": [1, end, 2]}, opset=17),
    "DFT-length": lambda end: _one(
        _node("DFT", ["x", "n"], ["output"], axis=1), {"x": [1, 16, 1]}, {"n": np.int64(end)}, 17),
    "STFT": lambda end: _one(_node("STFT", ["x", "step", "", "n"], ["output"]), {"x": [1, end, 2]},
                             {"step": np.int64(1), "n": np.int64(end)}),
    "Unique": lambda end: _declared(_one(_node("Unique", ["x"], ["output"]), {"x": [min(end, 1 << 14)]}), [end]),
    "NonMaxSuppression": lambda end: _declared(_one(
        _node("NonMaxSuppression", ["boxes", "scores", "most"], ["output"]), {"boxes": [1, end, 4], "scores": [1, 2, end]},
        {"most": np.int64(3)}), [6, 3]),
    "NonMaxSuppression-batch": lambda end: _declared(_one(
        _node("NonMaxSuppression", ["boxes", "scores", "most"], ["output"]), {"boxes": [end, 64, 4], "scores": [end, 2, 64]},
        {"most": np.int64(64)}), [6, 3]),
    "CumProd": lambda end: _one(_node("CumProd", ["x", "axis"], ["output"]), {"x": [end]}, {"axis": np.int64(0)}, 26),
    "Trilu": lambda end: _one(_node("Trilu", ["x"], ["output"]), {"x": [end, end]}),
    "Det": lambda end: _one(_node("Det", ["x"], ["output"]), {"x": [end, end]}),
    "SplitToSequence": lambda end: _one(_node("SplitToSequence", ["x"], ["output"]), {"x": [end]}),
    "GroupNormalization": lambda end: _one(
        _node("GroupNorm", ["x", "g", "b"], ["output"], domain="com.microsoft", groups=end, activation=0),
        {"x": [1, 8, 8, 4]}, {"g": np.ones(4, np.float32), "b": np.ones(4, np.float32)}),
    "DequantizeLinear": lambda end: _one(
        _node("DequantizeLinear", ["q", "s"], ["output"], axis=0, block_size=end), {},
        {"q": np.ones((2, 2), np.int8), "s": np.ones((1, 2), np.float32)}, 21),
    "QuantizeLinear": lambda end: _one(
        _node("QuantizeLinear", ["x", "s"], ["output"], axis=0, block_size=2), {"x": [end]},
        {"s": np.ones((1 << 15), np.float32)}, 21),
    "Compress": lambda end: _declared(_one(
        _node("Compress", ["x", "yes"], ["output"], axis=0), {"x": [end], "yes": [end]}), [end]),
    "CropAndResize": lambda end: _one(
        _node("CropAndResize", ["x", "boxes", "at", "size"], ["output"], domain="com.microsoft"),
        {"x": [1, 1, 9, 9], "boxes": [2, 4]},
        {"at": np.zeros(2, np.int32), "size": np.array([min(end, _INT32), 3], np.int32)}),
    "Scan": _scan,
    "Loop": _loop,
}  # fmt: skip
"""By what is as large as it is asked for: a model of one node."""


def dots(draw: random.Random) -> ModelProto:
    """An Einsum with many dots, letters or terms."""
    part, count = draw.choice((".", "...", "i", "i,", "...i,")), draw.choice((4, 1_000, 100_000))
    return _one(_node("Einsum", ["x"], ["output"], equation=part * count + "->"), {"x": [3]})


def plugin_names(draw: random.Random) -> ModelProto:
    """Plugin nodes that name an ONNX operator, one of another domain, a function or themselves, with wide attributes."""
    name = draw.choice(
        ("Split", "Cast", "LRN", "Loop", "Einsum", "Plugin", "f0", "f1", "MReLU", "BiasGelu", "Constant")
    )
    info = {
        draw.choice(("num_outputs", "to", "size", "p", "", "name", "equation")): draw.choice(
            (77, 10**9, "....", 1.5, [1 << 40])
        )
    }
    model = _functions(draw, draw.choice((2, 30)), 2)
    nodes = [node for function in model.functions for node in function.node] + list(model.graph.node)
    for node in nodes if draw.random() < 0.5 else draw.sample(nodes, 1):
        called = node.op_type if node.domain and draw.random() < 0.7 else name
        node.op_type = "Plugin"
        node.attribute.append(helper.make_attribute("name", called))
        node.attribute.append(helper.make_attribute("info", json.dumps(info if called == name else {})))
        if draw.random() < 0.3:
            node.domain = draw.choice(("", "ai.onnx", "com.microsoft"))
    return model


def many_of_a_thing(draw: random.Random) -> ModelProto:
    """As many outputs, inputs, value_infos, ... as fit."""
    return MANY[draw.choice(tuple(MANY))](draw.choice((1_000, 10_000, 40_000)))


def _with(change: Callable[[ModelProto, int], None]) -> Callable[[int], ModelProto]:
    """A model of one node with this many additions."""

    def made(count: int) -> ModelProto:
        model = _model([_node("Abs", ["input"], ["output"])], {}, {"input": [3]})
        change(model, count)
        return model

    return made


def _outputs(model: ModelProto, count: int) -> None:
    model.graph.node.extend(_node("Abs", ["input"], [f"o{i}"]) for i in range(count))
    model.graph.output.extend(_value(f"o{i}", TensorProto.FLOAT, [3]) for i in range(count))


def _one_output_often(model: ModelProto, count: int) -> None:
    model.graph.output.extend(_value("output", TensorProto.FLOAT, [3]) for _ in range(count))


def _inputs(model: ModelProto, count: int) -> None:
    model.graph.input.extend(_value(f"i{i}", TensorProto.FLOAT, [3]) for i in range(count))


def _initializers(model: ModelProto, count: int) -> None:
    model.graph.initializer.extend(
        TensorProto(name=f"c{i}", data_type=TensorProto.FLOAT, dims=[1], float_data=[1]) for i in range(count)
    )
    model.graph.node.extend(_node("Add", ["input", f"c{i}"], [f"a{i}"]) for i in range(0, count, 4))
    model.graph.output.append(onnx.ValueInfoProto(name="a0"))


def _value_infos(model: ModelProto, count: int) -> None:
    model.graph.value_info.extend(_value(f"v{i}", TensorProto.FLOAT, [3]) for i in range(count))


def _metadata(model: ModelProto, count: int) -> None:
    for place in (model.metadata_props, model.graph.metadata_props, model.graph.node[0].metadata_props):
        for i in range(count // 3):
            place.add(key=f"k{i}", value="v")


def _opsets(model: ModelProto, count: int) -> None:
    model.opset_import.extend(helper.make_opsetid(f"d{i}", 1) for i in range(count))


def _many_functions(model: ModelProto, count: int) -> None:
    model.functions.extend(_function(f"f{i}", [_node("Abs", ["x"], ["y"])]) for i in range(count))
    model.opset_import.add(domain=_DOMAIN, version=1)
    model.graph.node[0].op_type, model.graph.node[0].domain = f"f{count - 1}", _DOMAIN


def _attributes(model: ModelProto, count: int) -> None:
    model.graph.node[0].attribute.extend(helper.make_attribute(f"a{i}", i) for i in range(count))


def _quantizations(model: ModelProto, count: int) -> None:
    for i in range(count):
        model.graph.quantization_annotation.add(tensor_name=f"v{i}").quant_parameter_tensor_names.add(
            key="SCALE_TENSOR", value="s"
        )


def _wide_input(op_type: str, **more: Any) -> Callable[[ModelProto, int], None]:
    """A node with this many inputs, equal and different ones."""

    def change(model: ModelProto, count: int) -> None:
        model.graph.node.extend(_node("Abs", ["input"], [f"p{i}"]) for i in range(count // 2))
        reads = [*(f"p{i}" for i in range(count // 2)), *["input"] * (count - count // 2)]
        model.graph.node.append(_node(op_type, reads, ["wide"], **more))
        model.graph.output.append(onnx.ValueInfoProto(name="wide"))

    return change


def _wide_output(model: ModelProto, count: int) -> None:
    model.graph.input.append(_value("long", TensorProto.FLOAT, [count]))
    model.graph.node.append(_node("Split", ["long"], [f"s{i}" for i in range(count)]))
    model.graph.output.extend(onnx.ValueInfoProto(name=f"s{i}") for i in range(count))


def _readers(op_type: str) -> Callable[[ModelProto, int], None]:
    """Adds this many readers of one value."""

    def change(model: ModelProto, count: int) -> None:
        model.graph.node.extend(_node(op_type, ["output", "output"], [f"r{i}"]) for i in range(count))
        model.graph.output.append(onnx.ValueInfoProto(name="r0"))

    return change


def _views(model: ModelProto, count: int) -> None:
    """Adds a row of nodes, with the transposed result of each as an output."""
    for i in range(count // 2):
        model.graph.node.append(_node("Add", [f"a{i - 1}" if i else "one", "one"], [f"a{i}"]))
        model.graph.node.append(_node("Transpose", [f"a{i}"], [f"t{i}"]))
        model.graph.output.append(onnx.ValueInfoProto(name=f"t{i}"))
    model.graph.initializer.append(numpy_helper.from_array(np.ones((2, 3), np.float32), "one"))


def _calls(model: ModelProto, count: int) -> None:
    """This many calls of a function."""
    model.functions.append(_function("f", [_node("Abs", ["x"], ["y"])]))
    model.opset_import.add(domain=_DOMAIN, version=1)
    for i in range(count // 2):
        model.graph.node.append(helper.make_node("f", ["input"], [f"c{i}"], domain=_DOMAIN))
    model.graph.output.append(onnx.ValueInfoProto(name="c0"))


def _domains(model: ModelProto, count: int) -> None:
    """Foreign operators, each in its own domain."""
    for i in range(count):
        model.graph.node.append(helper.make_node("f", ["input"], [f"c{i}"], domain=f"d{i}"))
    _opsets(model, count)
    model.graph.output.append(onnx.ValueInfoProto(name="c0"))


MANY: Mapping[str, Callable[[int], ModelProto]] = {
    "outputs": _with(_outputs),
    "an output, often": _with(_one_output_often),
    "inputs": _with(_inputs),
    "initializers": _with(_initializers),
    "value_infos": _with(_value_infos),
    "metadata": _with(_metadata),
    "opsets": _with(_opsets),
    "functions": _with(_many_functions),
    "attributes": _with(_attributes),
    "quantization annotations": _with(_quantizations),
    "inputs of a Sum": _with(_wide_input("Sum")),
    "inputs of a Concat": _with(_wide_input("Concat", axis=0)),
    "outputs of a Split": _with(_wide_output),
    "readers of a value": _with(_readers("Add")),
    "transposed outputs": _with(_views),
    "calls of a function": _with(_calls),
    "domains": _with(_domains),
}
"""So many of a thing in a model, by the thing."""


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
    end_of_range,
    dots,
    plugin_names,
    many_of_a_thing,
)


def drawn_bomb(draw: random.Random) -> tuple[str, bytes]:
    """A random model below the size limit, and the name of its family."""
    while True:
        family = draw.choice(FAMILIES)
        data = bytes(family(draw).SerializeToString())
        if len(data) < LARGEST:
            return family.__name__.strip("_"), data


def named_bombs() -> dict[str, bytes]:
    """The models that prompted these limits, as small as they were."""
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
    models |= {f"{name}, {end:,}": made(end) for name, made in UNROLLED.items() for end in (65_537, 1 << 30)}
    models["dots"] = _one(_node("Einsum", ["x"], ["output"], equation="." * 100_000 + "->"), {"x": [3]})
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
    """The nodes that make `v`, and a reader of it, or a tensor with v's values as sizes."""
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
    """A control-flow node around a graph of these nodes, which read outer values."""
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
    """Functions that each call the one below, in a row or side by side."""
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
