"""Small models for the tests of the model-file layer."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as oh
from onnx import numpy_helper as onh

SIZE = 1000  # elements of a weight: more than 1 KiB in every type of a byte or more


def weight(dtype: object, seed: int = 0, size: int = SIZE) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(size) * 5).astype(np.float32).astype(dtype)


def add_model(values: dict[str, np.ndarray], **kwargs: object) -> onnx.ModelProto:
    """y_<name> = x_<name> + weight, for each weight."""
    nodes, inputs, outputs, initializers = [], [], [], []
    for name, value in values.items():
        element = oh.np_dtype_to_tensor_dtype(value.dtype)
        nodes.append(oh.make_node("Add", [f"x_{name}", name], [f"y_{name}"], name=f"add_{name}"))
        inputs.append(oh.make_tensor_value_info(f"x_{name}", element, value.shape))
        outputs.append(oh.make_tensor_value_info(f"y_{name}", element, value.shape))
        initializers.append(onh.from_array(value, name))
    graph = oh.make_graph(nodes, "adds", inputs, outputs, initializers)
    return oh.make_model(graph, opset_imports=[oh.make_opsetid("", 20)], ir_version=10, **kwargs)


def rich_model() -> onnx.ModelProto:
    """Weights in the graph, in both branches of an If, in a Constant node, in a function; an outer weight
    used inside.
    """
    shared, left, right, const, inner = (weight(np.float32, seed) for seed in range(5))

    def branch(name: str, value: np.ndarray) -> onnx.GraphProto:
        nodes = [
            oh.make_node("Add", ["x", f"w_{name}"], [f"t_{name}"]),
            oh.make_node("Mul", [f"t_{name}", "shared"], [f"o_{name}"]),
        ]
        output = oh.make_tensor_value_info(f"o_{name}", T.FLOAT, [SIZE])
        return oh.make_graph(nodes, name, [], [output], [onh.from_array(value, f"w_{name}")])

    add_inner = oh.make_function(
        "local",
        "AddInner",
        ["a"],
        ["b"],
        [
            oh.make_node("Constant", [], ["c"], value=onh.from_array(inner, "inner")),
            oh.make_node("Add", ["a", "c"], ["b"]),
        ],
        [oh.make_opsetid("", 20)],
    )
    if_node = oh.make_node(
        "If",
        ["condition"],
        ["z"],
        name="choose",
        then_branch=branch("then", left),
        else_branch=branch("else", right),
    )
    if_node.doc_string = "chooses"
    nodes = [
        if_node,
        oh.make_node("Constant", [], ["k"], name="const", value=onh.from_array(const, "const")),
        oh.make_node("Sub", ["z", "k"], ["u"]),
        oh.make_node("Mul", ["u", "small"], ["v"]),
        oh.make_node("AddInner", ["v"], ["y"], name="call", domain="local"),
    ]
    graph = oh.make_graph(
        nodes,
        "rich",
        [oh.make_tensor_value_info("x", T.FLOAT, [SIZE]), oh.make_tensor_value_info("condition", T.BOOL, [])],
        [oh.make_tensor_value_info("y", T.FLOAT, [SIZE])],
        [onh.from_array(shared, "shared"), onh.from_array(np.array([2.0], np.float32), "small")],
        doc_string="a graph",
        value_info=[oh.make_tensor_value_info("u", T.FLOAT, [SIZE])],
    )
    opsets = [oh.make_opsetid("", 20), oh.make_opsetid("local", 1)]
    model = oh.make_model(
        graph, opset_imports=opsets, ir_version=10, functions=[add_inner], doc_string="a model"
    )
    oh.set_model_props(model, {"author": "nobody"})
    model.producer_name, model.model_version, model.domain = "builder", 7, "example"
    return model


def rich_feeds(condition: bool) -> dict[str, np.ndarray]:
    return {"x": np.linspace(-1, 1, SIZE, dtype=np.float32), "condition": np.array(condition)}


def save_external(model: onnx.ModelProto, path: Path, location: str = "weights.bin") -> Path:
    """Saves with every weight, those of tensor attributes too, in an external file."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    onnx.save_model(
        copy,
        path,
        save_as_external_data=True,
        location=location,
        size_threshold=0,
        convert_attribute=True,
    )
    return path


def external_tensor(name: str = "w", dims: tuple[int, ...] = (SIZE,), **entries: str) -> onnx.TensorProto:
    tensor = onnx.TensorProto(name=name, dims=dims, data_type=T.FLOAT, data_location=T.EXTERNAL)
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    return tensor


def with_initializer(tensor: onnx.TensorProto) -> onnx.ModelProto:
    """x + w with the given tensor as w."""
    model = add_model({"w": weight(np.float32)})
    del model.graph.initializer[:]
    model.graph.initializer.add().CopyFrom(tensor)
    return model


ALL_DTYPES = (
    np.float32, np.float64, np.float16, np.int8, np.uint8, np.int16, np.int32, np.int64, np.bool_,
    ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2,
    ml_dtypes.float8_e5m2fnuz, ml_dtypes.int4, ml_dtypes.uint4,
)  # fmt: skip
