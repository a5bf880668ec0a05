"""8-bit products in onnxruntime, over the full ranges of their types, against numpy: exact on every CPU."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.converter.models import written
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.ort import run

CONTRIB = "com.microsoft"
ZERO, OTHER_ZERO = np.uint8(130), np.int8(-3)
ZEROS = np.random.default_rng(3).integers(-128, 128, 16).astype(np.int8)
ONE, STEP, SCALE, MIDDLE = np.float32(1), np.float32(900), np.float32(1e-5), np.uint8(128)


def full(*shape: int, dtype: Any) -> np.ndarray:
    """Numbers of the whole range, most of them at its ends, where sums of pairs are largest."""
    info, rng = np.iinfo(dtype), np.random.default_rng(sum(shape))
    array = rng.integers(info.min, info.max + 1, shape)
    ends = np.where(rng.random(shape) < 0.7, info.max, info.min)
    array = np.where(rng.random(shape) < 0.6, ends, array)
    array.flat[:2] = info.max, info.min
    return array.astype(dtype)


A, B = full(6, 64, dtype=np.uint8), full(64, 16, dtype=np.int8)
X, W = full(1, 4, 9, 9, dtype=np.uint8), full(8, 4, 3, 3, dtype=np.int8)
SIGNED, FILTERS = full(1, 4, 9, 9, dtype=np.int8), full(8, 4, 3, 3, dtype=np.uint8)


def product(zeros: Any = OTHER_ZERO, zero: Any = ZERO) -> np.ndarray:
    return (A.astype(int) - int(zero)) @ (B.astype(int) - zeros.astype(int))


def convolved(x: np.ndarray, w: np.ndarray, zero: int, other: int) -> np.ndarray:
    """3x3 filters, one pixel of padding."""
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(x.astype(int) - zero, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), (2, 3)
    )
    return np.einsum("nchwij,ocij->nohw", windows, w.astype(int) - other)


def quantized(sums: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(sums / STEP) + MIDDLE, 0, 255).astype(np.uint8)


def attention(heads: int) -> np.ndarray:
    """QAttention of a batch of one: weighted values, with products of queries and keys as weights, for each head."""
    projected = np.split(product()[:, :12] * float(SCALE), 3, axis=1)
    q, k, v = (np.stack(np.split(one, heads, axis=1)) for one in projected)
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.concatenate(list(weights / weights.sum(-1, keepdims=True) @ v), axis=1)[None]


class Case(NamedTuple):
    op_type: str
    inputs: Mapping[str, np.ndarray | None]
    expected: np.ndarray
    domain: str = ""
    attributes: Mapping[str, Any] = {}
    constants: tuple[str, ...] = ("b", "w")
    tolerance: float = 0.0


FLOATS = A.astype(np.float32) - np.float32(ZERO)
STEPS = {"ys": STEP, "yz": MIDDLE}
PADS = {"pads": [1, 1, 1, 1]}
CASES = {
    "MatMulInteger": Case("MatMulInteger", {"a": A, "b": B, "za": ZERO, "zb": OTHER_ZERO}, product()),
    "operands at run time": Case(
        "MatMulInteger", {"a": A, "b": B, "za": ZERO, "zb": OTHER_ZERO}, product(), constants=()
    ),
    "zero points of columns": Case(
        "MatMulInteger", {"a": A, "b": B, "za": ZERO, "zb": ZEROS}, product(ZEROS)
    ),
    "no zero points": Case("MatMulInteger", {"a": A, "b": B}, product(np.int8(0), 0)),
    "ConvInteger": Case(
        "ConvInteger",
        {"x": SIGNED, "w": FILTERS, "zb": OTHER_ZERO, "za": ZERO},
        convolved(SIGNED, FILTERS, -3, 130),
        attributes=PADS,
    ),
    "QLinearMatMul": Case(
        "QLinearMatMul",
        {"a": A, "s": ONE, "za": ZERO, "b": B, "sb": ONE, "zb": OTHER_ZERO, **STEPS},
        quantized(product()),
    ),
    "QLinearConv": Case(
        "QLinearConv",
        {"x": X, "s": ONE, "za": ZERO, "w": W, "sw": ONE, "zb": OTHER_ZERO, **STEPS},
        quantized(convolved(X, W, 130, -3)),
        attributes=PADS,
    ),
    "MatMulIntegerToFloat": Case(
        "MatMulIntegerToFloat",
        {"a": A, "b": B, "s": ONE, "sb": ONE, "za": ZERO, "zb": OTHER_ZERO},
        product(),
        CONTRIB,
    ),
    "DynamicQuantizeMatMul": Case(
        "DynamicQuantizeMatMul", {"x": FLOATS, "b": B, "s": ONE, "zb": OTHER_ZERO}, product(), CONTRIB
    ),
    "QGemm": Case(
        "QGemm",
        {"a": A, "s": ONE, "za": ZERO, "b": B, "sb": ONE, "zb": OTHER_ZERO, "c": None, **STEPS},
        quantized(product()),
        CONTRIB,
    ),
    "QAttention": Case(
        "QAttention",
        {
            "a": A[None],
            "b": B[:, :12],
            "bias": np.zeros(12, np.float32),
            "s": SCALE,
            "sb": ONE,
            "mask": None,
            "za": ZERO,
            "zb": OTHER_ZERO,
        },
        attention(2),
        CONTRIB,
        {"num_heads": 2},
        tolerance=1e-6,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_product_of_eight_bits_is_exact(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    given = {n: np.asarray(v) for n, v in case.inputs.items() if v is not None}
    names = [n if n in given else "" for n in case.inputs]
    node = helper.make_node(case.op_type, names, ["y"], domain=case.domain, **case.attributes)
    fed = {n: v for n, v in given.items() if v.ndim > 1 and n not in case.constants}
    kinds = {n: helper.np_dtype_to_tensor_dtype(v.dtype) for n, v in given.items()}
    floats = case.domain == CONTRIB and "ys" not in given
    kind = TensorProto.FLOAT if floats else TensorProto.UINT8 if "ys" in given else TensorProto.INT32
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(n, kinds[n], v.shape) for n, v in fed.items()],
        [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(v, n) for n, v in given.items() if n not in fed],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(CONTRIB, 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "m.onnx")
    found = run(load_model(tmp_path / "m.onnx"), fed)["y"]
    np.testing.assert_allclose(found.astype(float), case.expected, rtol=0, atol=case.tolerance)


TYPED_ELSEWHERE = {
    "by the nodes before it": """(uint8[6, 64] a, int8[16, 64] b) => (int32[6, 16] y) {
        same = Identity (a)  turned = Transpose <perm = [1, 0]> (b)  y = MatMulInteger (same, turned)
    }""",
    "by a Cast": """(uint8[6, 64] a, int8[16, 64] b) => (int32[6, 16] y) {
        wide = Cast <to = 6> (b)  narrow = Cast <to = 3> (wide)  turned = Transpose <perm = [1, 0]> (narrow)
        y = MatMulInteger (a, turned)
    }""",
    "by a QuantizeLinear": """(uint8[6, 64] a, int8[16, 64] b) => (int32[6, 16] y) <float one = {1}, int8 zero = {0}> {
        wide = Cast <to = 1> (b)  turned = Transpose <perm = [1, 0]> (wide)  narrow = QuantizeLinear (turned, one, zero)
        y = MatMulInteger (a, narrow)
    }""",
    "outside of a body": """(uint8[6, 64] a, int8[16, 64] b, bool c) => (int32[6, 16] y) {
        turned = Transpose <perm = [1, 0]> (b)
        y = If (c) <then_branch = t () => (int32[6, 16] z) { z = MatMulInteger (a, turned) },
                    else_branch = e () => (int32[6, 16] z) { z = MatMulInteger (a, turned) }>
    }""",
    "by the nodes before it, all in the domain's other name": """(uint8[6, 64] a, int8[16, 64] b) => (int32[6, 16] y) {
        turned = ai.onnx.Transpose <perm = [1, 0]> (b)  y = ai.onnx.MatMulInteger (a, turned)
    }""",
    "by the call of a function": """(uint8[6, 64] a, int8[16, 64] b) => (int32[6, 16] y) {
        turned = Transpose <perm = [1, 0]> (b)  y = own.Product (a, turned)
    }
    <domain: "own", opset_import: ["": 21]> Product (l, r) => (p) { p = MatMulInteger (l, r) }""",
}


@pytest.mark.parametrize("how", TYPED_ELSEWHERE)
def test_its_types_are_found(how: str, tmp_path: Path) -> None:
    model = load_model(written(tmp_path / "m.onnx", TYPED_ELSEWHERE[how], opset=21))
    feeds = {"a": A, "b": np.ascontiguousarray(B.T), "c": np.array(True)}
    fed = {value.name: feeds[value.name] for value in model.proto.graph.input}
    np.testing.assert_array_equal(run(model, fed)["y"], product(np.int8(0), 0))


def test_weights_in_4_bits_are_multiplied_in_float32(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, packed = rng.normal(size=(3, 64)).astype(np.float32), rng.integers(0, 256, (8, 4, 8)).astype(np.uint8)
    weights = np.stack([packed & 15, packed >> 4], -1).reshape(8, 64).astype(float) - 8
    node = helper.make_node(
        "MatMulNBits",
        ["x", "w", "s"],
        ["y"],
        domain=CONTRIB,
        K=64,
        N=8,
        bits=4,
        block_size=16,
        accuracy_level=4,
    )
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(packed, "w"), numpy_helper.from_array(np.ones(32, np.float32), "s")],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(CONTRIB, 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "m.onnx")
    found = run(load_model(tmp_path / "m.onnx"), {"x": x})["y"]
    np.testing.assert_allclose(found, x @ weights.T, rtol=0, atol=1e-4)
