"""Models from onnxruntime's own quantization, in all its formats, through the rules."""

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)

from tests.converter.rewrite.running import engine_size
from trtsmith.converter.convert.plan import plan
from trtsmith.converter.engine.builder.build_request import Profile
from trtsmith.converter.model.load import load_model
from trtsmith.converter.rewrite.rewrite import Rewritten, expand, rewrite
from trtsmith.converter.rewrite.rules.quantized.exact_products import EXACT_SUM

NETWORK = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N, 3, 8, 8] image) => (float[N, 5] scores) {
    a = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (image, w1, b1)
    b = Relu (a)
    c = Conv <pads = [1, 1, 1, 1], group = 4> (b, w2, b2)
    d = Sigmoid (c)
    e = Add (b, d)
    p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (e)
    m = GlobalAveragePool (p)
    both = Concat <axis = 1> (m, m)
    flat = Flatten (both)
    h = MatMul (flat, w3)
    r = LeakyRelu <alpha = 0.1> (h)
    scores = Gemm <transB = 1> (r, w4, b4)
}"""

SHAPES = {
    "w1": (4, 3, 3, 3),
    "b1": (4,),
    "w2": (4, 1, 3, 3),
    "b2": (4,),
    "w3": (8, 6),
    "w4": (5, 6),
    "b4": (5,),
}

_U8, _S8, _U16 = QuantType.QUInt8, QuantType.QInt8, QuantType.QUInt16
STATIC = {
    name: {"activation_type": activation, "weight_type": weight, **more}
    for name, activation, weight, more in (
        ("uint8", _U8, _S8, {}),
        ("uint8 by channel", _U8, _S8, {"per_channel": True}),
        ("uint8 weights", _U8, _U8, {}),
        ("uint8 around 128", _U8, _S8, {"extra_options": {"ActivationSymmetric": True}}),
        ("int8 asymmetric", _S8, _S8, {}),
        ("int8 symmetric", _S8, _S8, {"extra_options": {"ActivationSymmetric": True}}),
        ("uint16", _U16, _S8, {"extra_options": {"UseQDQContribOps": True}}),
    )
}


class Images(CalibrationDataReader):
    def __init__(self) -> None:
        rng = np.random.default_rng(1)
        self._left = iter([{"image": rng.normal(size=(2, 3, 8, 8)).astype(np.float32)} for _ in range(4)])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self._left, None)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    proto = onnx.parser.parse_model(NETWORK)
    for name, shape in SHAPES.items():
        array = rng.normal(0, 1 / np.sqrt(np.prod(shape[1:], initial=1)), shape).astype(np.float32)
        proto.graph.initializer.append(numpy_helper.from_array(array, name))
    path = tmp_path_factory.mktemp("network") / "float.onnx"
    onnx.save(proto, path)
    return path


def static(network: Path, folder: Path, kind: str, form: QuantFormat) -> Path:
    path = folder / "quantized.onnx"
    # Processors without VNNI saturate onnxruntime's products of uint8 and int8, but not those of 7 bits.
    small = form == QuantFormat.QOperator
    quantize_static(network, path, Images(), quant_format=form, reduce_range=small, **STATIC[kind])
    return path


def outputs(proto: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """By onnxruntime without its fusions: those replace a DequantizeLinear, Conv, QuantizeLinear by other roundings."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds), strict=True))


def rewritten(path: Path) -> Rewritten:
    result = rewrite(load_model(path))
    assert not result.declined
    assert plan(result).convertible
    return result


def kinds(result: Rewritten) -> Counter[str]:
    return Counter(node.op_type for node in result.model.proto.graph.node)


def assert_same(path: Path, result: Rewritten, steps: float = 0) -> None:
    """steps: by how many of the output's 255 steps onnxruntime's integer kernels may differ, in other roundings."""
    rng = np.random.default_rng(5)
    for batch in (1, 3):
        feeds = {"image": rng.normal(0, 1.5, (batch, 3, 8, 8)).astype(np.float32)}
        want = outputs(onnx.load(path), feeds)["scores"]
        got = outputs(expand(result.model).proto, feeds)["scores"]
        assert got.shape == want.shape and np.ptp(want) > 0.1
        np.testing.assert_allclose(got, want, rtol=0, atol=steps * np.ptp(want) / 255)


def builds(result: Rewritten, folder: Path) -> None:
    shapes = {"image": Profile((1, 3, 8, 8), (2, 3, 8, 8), (4, 3, 8, 8))}
    assert engine_size(result, folder, shapes) > 0


@pytest.mark.parametrize("kind", STATIC)
def test_models_with_q_and_dq(network: Path, tmp_path: Path, kind: str) -> None:
    path = static(network, tmp_path, kind, QuantFormat.QDQ)
    result = rewritten(path)
    assert_same(path, result)
    builds(result, tmp_path)


@pytest.mark.parametrize("kind", ["uint8", "uint8 by channel", "uint8 weights", "int8 asymmetric"])
def test_models_of_integer_operators(network: Path, tmp_path: Path, kind: str) -> None:
    path = static(network, tmp_path, kind, QuantFormat.QOperator)
    before = {node.op_type for node in onnx.load(path).graph.node}
    assert {"QLinearConv", "QLinearMatMul", "QLinearAdd", "QLinearConcat", "QGemm"} <= before
    result = rewritten(path)
    assert not kinds(result).keys() & {name for name in before if name.startswith("Q")}
    assert_same(path, result, steps=1.5)


@pytest.mark.parametrize("weights", [QuantType.QInt8, QuantType.QUInt8])
def test_dynamically_quantized_models(network: Path, tmp_path: Path, weights: QuantType) -> None:
    path = tmp_path / "quantized.onnx"
    quantize_dynamic(network, path, weight_type=weights, reduce_range=True)
    assert {"ConvInteger", "MatMulInteger", "DynamicQuantizeLinear"} <= {
        n.op_type for n in onnx.load(path).graph.node
    }
    result = rewritten(path)
    assert_same(path, result, steps=1.5)
    builds(result, tmp_path)


def test_a_models_own_cast_truncates_whatever_its_doc_string_says(tmp_path: Path) -> None:
    body = "m = MatMul (x, w) i = Cast <to = 6> (m) f = Cast <to = 1> (i) y = Neg (f)"
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[3, 5] x, float[5, 4] w) => (float[3, 4] y) {{ {body} }}'
    )
    model.graph.node[1].doc_string = EXACT_SUM
    onnx.save(model, tmp_path / "m.onnx")
    assert [n.op_type for n in rewritten(tmp_path / "m.onnx").model.proto.graph.node].count("Cast") == 2


def test_int8_around_zero_stays_as_it_is(network: Path, tmp_path: Path) -> None:
    path = static(network, tmp_path, "int8 symmetric", QuantFormat.QDQ)
    before = onnx.load(path)
    result = rewritten(path)
    int32 = {t.name for t in before.graph.initializer if t.data_type == onnx.TensorProto.INT32}
    biases = {
        node.name
        for node in before.graph.node
        if node.op_type == "DequantizeLinear" and node.input[0] in int32
    }
    assert biases == {record.node for record in result.rewrites}
    kept = [n.SerializeToString() for n in before.graph.node if n.name not in biases]
    now = [n.SerializeToString() for n in result.model.proto.graph.node]
    assert [node for node in now if node in kept] == kept


def test_uint8_around_128_is_int8_in_the_engine(network: Path, tmp_path: Path) -> None:
    result = rewritten(static(network, tmp_path, "uint8 around 128", QuantFormat.QDQ))
    types = {v.name: v.type.tensor_type.elem_type for v in result.model.proto.graph.value_info}
    made = [n for n in result.model.proto.graph.node if n.op_type == "QuantizeLinear"]
    assert len(made) >= 8
    assert {types[node.output[0]] for node in made} == {onnx.TensorProto.INT8}
