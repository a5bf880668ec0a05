"""Models without Squeeze and similar nodes give the same results in onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from gpubundle.rig_parser import SqueezedError, rig_parser, without_squeeze

KIN = ("Squeeze", "Hardmax")
CASES: dict[str, tuple[str, dict[str, tuple[int, ...]]]] = {
    "one axis": ("y = Squeeze(x, axes)", {"x": (1, 3, 1), "axes": (0,)}),
    "axes in any order": ("y = Squeeze(x, axes)", {"x": (2, 1, 3, 1, 1), "axes": (-1, 1)}),
    "all axes of size one": ("y = Squeeze(x)", {"x": (1, 3, 1, 2)}),
    "nothing to squeeze": ("y = Squeeze(x)", {"x": (3, 2)}),
    "a scalar": ("y = Squeeze(x)", {"x": (1, 1)}),
    "ArgMax": ("y = ArgMax <axis = 1, keepdims = 0> (x)", {"x": (2, 5, 3)}),
    "ArgMin of the default axis": ("y = ArgMin <keepdims = 0> (x)", {"x": (2, 5, 3)}),
    "ArgMax that keeps it": ("y = ArgMax <axis = 2, keepdims = 1> (x)", {"x": (2, 5, 3)}),
    "vector by matrix": ("y = MatMul (x, w)", {"x": (4,), "w": (4, 5)}),
    "vector by matrices": ("y = MatMul (x, w)", {"x": (4,), "w": (3, 4, 5)}),
    "matrices by vector": ("y = MatMul (x, w)", {"x": (2, 3, 4), "w": (4,)}),
    "vector by vector": ("y = MatMul (x, w)", {"x": (4,), "w": (4,)}),
    "Conv": (
        "y = Conv <pads = [1, 2], strides = [2], dilations = [2]> (x, w, b)",
        {"x": (2, 3, 11), "w": (4, 3, 3), "b": (4,)},
    ),
    "Conv in groups, padded as wanted": (
        'y = Conv <group = 3, auto_pad = "SAME_UPPER"> (x, w)',
        {"x": (2, 3, 11), "w": (6, 1, 4)},
    ),
    "ConvTranspose": (
        "y = ConvTranspose <strides = [2], output_padding = [1], pads = [1, 0]> (x, w)",
        {"x": (2, 3, 7), "w": (3, 2, 3)},
    ),
    "ConvTranspose of a given size": (
        "y = ConvTranspose <strides = [2], output_shape = [15]> (x, w)",
        {"x": (2, 3, 7), "w": (3, 2, 3)},
    ),
    "MaxPool": ("y = MaxPool <kernel_shape = [3], strides = [2], ceil_mode = 1> (x)", {"x": (2, 3, 10)}),
    "MaxPool with indices": ("y, z = MaxPool <kernel_shape = [3], pads = [1, 1]> (x)", {"x": (2, 3, 10)}),
    "AveragePool": (
        "y = AveragePool <kernel_shape = [4], pads = [1, 2], count_include_pad = 1> (x)",
        {"x": (2, 3, 10)},
    ),
    "LpPool": ("y = LpPool <kernel_shape = [4], p = 2> (x)", {"x": (2, 3, 10)}),
    "TopK of a vector": ("y, z = TopK (x, k)", {"x": (9,), "k": (3,)}),
    "CumSum along an axis in a vector": ("y = CumSum (x, axes)", {"x": (2, 3), "axes": (1,)}),
    "two-dimensional": ("y = MaxPool <kernel_shape = [3, 3]> (x)", {"x": (1, 2, 5, 5)}),
}


def model_of(text: str, shapes: dict[str, tuple[int, ...]], opset: int = 20) -> ModelProto:
    """Integers after `axes` and `k` are values, all other shapes are of random initializers and the input x."""
    names = text.split("=")[0].replace(" ", "").split(",")
    kinds = {name: TensorProto.INT64 if name == "z" or "Arg" in text else TensorProto.FLOAT for name in names}
    inputs = f"float{list(shapes['x'])} x" if shapes["x"] else "float x"
    outputs = ", ".join(f"{'int64' if k == TensorProto.INT64 else 'float'} {n}" for n, k in kinds.items())
    version = f'<ir_version: 9, opset_import: ["" : {opset}]>'
    proto = onnx.parser.parse_model(f"{version} g ({inputs}) => ({outputs}) {{ {text} }}")
    for name in names:  # the parser writes outputs of rank 0
        next(o for o in proto.graph.output if o.name == name).type.tensor_type.ClearField("shape")
    chance = np.random.default_rng(7)
    for name, shape in shapes.items():
        if name in ("axes", "k"):
            proto.graph.initializer.append(numpy_helper.from_array(np.array(shape, np.int64), name))
        elif name != "x":
            array = chance.standard_normal(shape).astype(np.float32)
            proto.graph.initializer.append(numpy_helper.from_array(array, name))
    return proto


def run(proto: ModelProto, x: np.ndarray) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    found: list[np.ndarray] = session.run(None, {"x": x})
    return found


@pytest.mark.parametrize("name", CASES)
def test_the_same_numbers_without_squeeze(name: str) -> None:
    proto = model_of(*CASES[name])
    x = np.random.default_rng(3).standard_normal(CASES[name][1]["x"]).astype(np.float32)
    changed = without_squeeze(proto)
    left = [node for node in changed.graph.node if node.op_type in KIN]
    assert not left
    for node in changed.graph.node:
        if node.op_type in ("ArgMax", "ArgMin"):
            assert helper.get_node_attr_value(node, "keepdims") == 1
        if node.op_type == "CumSum":
            made = next(other for other in changed.graph.node if node.input[1] in other.output)
            assert made.op_type == "Gather"
        if node.op_type in ("MaxPool", "AveragePool", "LpPool"):
            assert len(helper.get_node_attr_value(node, "kernel_shape")) == 2
    for got, wanted in zip(run(changed, x), run(proto, x), strict=True):
        assert got.shape == wanted.shape and got.dtype == wanted.dtype
        np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-6)


def test_squeeze_of_an_attribute_in_a_branch() -> None:
    text = """<ir_version: 7, opset_import: ["" : 11]> g (bool c, float[1, 3] x) => (float[n] y)
        { y = If <then_branch = t () => (float[n] a) { a = Squeeze <axes = [0]> (x) },
                  else_branch = e () => (float[n] b) { s = Neg (x) b = Squeeze (s) }> (c) }"""
    changed = without_squeeze(onnx.parser.parse_model(text))
    x = np.array([[1, 2, 3]], np.float32)
    for condition in (True, False):
        feeds = {"c": np.array(condition), "x": x}
        (found,) = onnxruntime.InferenceSession(changed.SerializeToString()).run(None, feeds)
        np.testing.assert_array_equal(found, x[0] if condition else -x[0])


@pytest.mark.parametrize(
    ("text", "shapes", "said"),
    [
        ("y = Hardmax (x)", {"x": (2, 3)}, "Hardmax"),
        ("a = Shape (x) y = Squeeze (x, a)", {"x": (1, 3)}, "not constant"),
    ],
)
def test_what_has_no_other_form_is_refused(text: str, shapes: Any, said: str) -> None:
    with pytest.raises(SqueezedError, match=said):
        without_squeeze(model_of(text, shapes))


def test_the_parser_says_what_it_cannot_parse(tmp_path: Path) -> None:
    class Native:
        """What is used of trt.OnnxParser."""

        given: bytes = b""
        num_errors = 0

        def parse(self, model: bytes, path: str | None = None) -> bool:
            self.given = model
            return True

    parser = rig_parser(Native)()
    path = tmp_path / "m.onnx"
    onnx.save(model_of("y = Squeeze (x)", {"x": (1, 3)}), path)
    assert parser.parse_from_file(str(path)) and b"Squeeze" not in parser.given
    onnx.save(model_of("y = Hardmax (x)", {"x": (1, 3)}), path)
    assert not parser.parse_from_file(str(path))
    assert parser.num_errors == 1 and "Hardmax" in parser.get_error(0).desc()
