"""8-bit and 4-bit constants with readers other than DequantizeLinear: their numbers, engines, and one byte each."""

from dataclasses import dataclass, field
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.converter.rewrite.running import engine_size, loaded, op_types
from trtsmith.converter.engine.builder.build_request import Profile
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.rewrite import Rewritten, rewrite
from trtsmith.converter.rewrite.target import RTX

RNG = np.random.default_rng(0)


def int8(*shape: int) -> np.ndarray:
    return RNG.integers(-128, 128, shape).astype(np.int8)


def uint8(*shape: int) -> np.ndarray:
    return RNG.integers(0, 256, shape).astype(np.uint8)


@dataclass(frozen=True)
class Form:
    """text: of the graph, whose first output is compared. kinds: operators that must be, or (with "-") must not be there."""

    text: str
    tensors: dict[str, np.ndarray] = field(default_factory=dict)
    kinds: tuple[str, ...] = ()
    opset: int = 17


ONE = np.array(0.02, np.float32)
STEPS = RNG.uniform(0.01, 0.03, 200).astype(np.float32)
ZERO, ZERO5 = np.array(0, np.int8), np.array(5, np.int8)
ROWS = "g (int64[N] i) => (float[N, 8] y)"
LAYER = "g (float[N, 80] x) => (float[N, 100] y)"
THROUGH = ("DequantizeLinear", "Cast")
TRANSPOSED = "{ a = Transpose <perm = [1, 0]> (w) "

FORMS = {
    "rows of a table": Form(
        f"{ROWS} {{ a = Gather (w, i) y = DequantizeLinear (a, s, z) }}",
        {"w": int8(100, 8), "s": ONE, "z": ZERO},
        THROUGH,
    ),
    "rows of a table, a zero point": Form(
        f"{ROWS} {{ a = Gather (w, i) y = DequantizeLinear (a, s, z) }}",
        {"w": int8(100, 8), "s": ONE, "z": ZERO5},
        THROUGH,
    ),
    "rows of a table, a scale for each column": Form(
        f"{ROWS} {{ a = Gather (w, i) y = DequantizeLinear <axis = 1> (a, s) }}",
        {"w": int8(100, 8), "s": STEPS[:8]},
        THROUGH,
    ),
    "rows of a table, a scale for each row": Form(
        f"{ROWS} {{ a = Gather (w, i) b = Gather (s, i) y = DequantizeLinear <axis = 0> (a, b) }}",
        {"w": int8(100, 8), "s": STEPS[:100]},
        THROUGH,
    ),
    "rows of a table, times their scales": Form(
        f"{ROWS} {{ a = Gather (w, i) c = Cast <to = 1> (a) b = Gather (s, i) u = Unsqueeze (b, one) y = Mul (c, u) }}",
        {"w": int8(100, 8), "s": STEPS[:100], "one": np.array([1])},
        THROUGH,
    ),
    "rows of a table, in float16": Form(
        "g (int64[N] i) => (float16[N, 8] y) { a = Gather (w, i) y = DequantizeLinear (a, s) }",
        {"w": int8(100, 8), "s": np.array(0.02, np.float16)},
        THROUGH,
        opset=19,
    ),
    "elements of a table": Form(
        "g (int64[N, 1] i) => (float[N, 8] y) { a = GatherND (w, i) y = DequantizeLinear (a, s) }",
        {"w": int8(100, 8), "s": ONE},
        THROUGH,
    ),
    "rows of bytes": Form(
        f"{ROWS} {{ a = Gather (w, i) y = DequantizeLinear (a, s, z) }}",
        {"w": uint8(1000, 8), "s": ONE, "z": np.array(131, np.uint8)},
        THROUGH,
    ),
    "rows for an integer product": Form(
        "g (int64[N] i, int8[8, 5] b) => (int32[N, 5] y) { a = Gather (w, i) y = MatMulInteger (a, b) }",
        {"w": int8(100, 8)},
        THROUGH,
    ),
    "cast and scaled": Form(
        f"{LAYER} {{ a = Cast <to = 1> (w) b = Mul (a, s) y = MatMul (x, b) }}",
        {"w": int8(80, 100), "s": ONE},
        THROUGH,
    ),
    "bytes cast and scaled": Form(
        f"{LAYER} {{ a = Cast <to = 1> (w) z = Cast <to = 1> (p) d = Sub (a, z) b = Mul (d, s) y = MatMul (x, b) }}",
        {"w": uint8(80, 100), "s": ONE, "p": np.array(131, np.uint8)},
        THROUGH,
    ),
    "four bits cast and scaled": Form(
        f"{LAYER} {{ a = Cast <to = 1> (w) b = Mul (a, s) y = MatMul (x, b) }}",
        {"w": RNG.integers(-8, 8, (80, 100)).astype(ml_dtypes.int4), "s": ONE},
        THROUGH,
        opset=21,
    ),
    "transposed": Form(
        f"{LAYER} {TRANSPOSED} b = DequantizeLinear <axis = 1> (a, s) y = MatMul (x, b) }}",
        {"w": int8(100, 80), "s": STEPS[:100]},
        ("DequantizeLinear", "-Transpose", "-Cast"),
    ),
    "four bits transposed": Form(
        f"{LAYER} {TRANSPOSED} b = DequantizeLinear (a, s) y = MatMul (x, b) }}",
        {"w": RNG.integers(-8, 8, (100, 80)).astype(ml_dtypes.int4), "s": ONE},
        ("DequantizeLinear", "-Transpose", "-Cast"),
        opset=21,
    ),
    "transposed, in blocks": Form(
        f"{LAYER} {TRANSPOSED} b = DequantizeLinear <axis = 0, block_size = 16> (a, s) y = MatMul (x, b) }}",
        {"w": int8(100, 80), "s": RNG.uniform(0.01, 0.03, (5, 100)).astype(np.float32)},
        ("DequantizeLinear", "-Transpose", "-Cast"),
        opset=21,
    ),
    "reshaped, cut and joined": Form(
        f"""{LAYER} {{ a = Reshape (w, shape) b = Slice (a, from, to, axes, steps) c, d = Split <axis = 2> (v, sizes)
            e = Concat <axis = 2> (b, d) f = Squeeze (e, first) k = DequantizeLinear (f, s, z) y = MatMul (x, k) }}""",
        {
            "w": int8(80 * 200),
            "shape": np.array([1, -1, 200]),
            "from": np.array([-1]),
            "to": np.array([-201]),
            "axes": np.array([2]),
            "steps": np.array([-5]),
            "v": int8(1, 80, 90),
            "sizes": np.array([30, 60]),
            "first": np.array([0]),
            "s": ONE,
            "z": ZERO,
        },
        ("DequantizeLinear", "-Reshape", "-Concat", "-Slice", "-Split", "-Cast"),
    ),
    "joined bytes": Form(
        f"{LAYER} {{ a = Concat <axis = 1> (w, v) b = DequantizeLinear (a, s, z) y = MatMul (x, b) }}",
        {"w": uint8(80, 40), "v": uint8(80, 60), "s": ONE, "z": np.array(131, np.uint8)},
        ("-Concat", "-Cast"),
    ),
    "expanded": Form(
        """g (float[3, N, 80] x) => (float[3, N, 100] y) { e = Expand (w, shape) b = DequantizeLinear (e, s)
            y = MatMul (x, b) }""",
        {"w": int8(80, 100), "s": ONE, "shape": np.array([3, 80, 100])},
        THROUGH,
    ),
    "joined with what is quantized": Form(
        """g (float[N, 8] x) => (float[M, 8] y) { q = QuantizeLinear (x, s, z) c = Concat <axis = 0> (q, w)
            y = DequantizeLinear (c, s, z) }""",
        {"w": int8(3, 8), "s": ONE, "z": ZERO},
        THROUGH,
    ),
    "a scale that is computed": Form(
        "g (float[N, 80] x, float[100] s) => (float[N, 100] y) { b = DequantizeLinear <axis = 1> (w, s) y = MatMul (x, b) }",
        {"w": int8(80, 100)},
        ("DequantizeLinear", "-Cast"),
    ),
    "read by others too, and returned": Form(
        """g (float[N, 80] x) => (float[N, 100] y, int32[80, 100] q, int8[80, 100] r) { b = DequantizeLinear (w, s)
            y = MatMul (x, b) q = Cast <to = 6> (w) r = Identity (w) }""",
        {"w": int8(80, 100), "s": ONE},
        THROUGH,
    ),
    "compared, chosen and added": Form(
        """g (int8[N, 8] x) => (int8[N, 8] y) { e = Equal (x, w) c = Where (e, x, w) y = Add (c, w) }""",
        {"w": int8(8)},
        THROUGH,
        opset=19,
    ),
    "of branches": Form(
        """g (float[N, 80] x, bool c) => (float[N, 100] y) { b = If (c) <
            then_branch = t () => (int8[80, 100] o) { o = Identity (w) },
            else_branch = e () => (int8[80, 100] p) { p = Transpose <perm = [1, 0]> (v) }>
            d = DequantizeLinear (b, s) y = MatMul (x, d) }""",
        {"w": int8(80, 100), "v": int8(100, 80), "s": ONE},
        THROUGH,
    ),
}


def opened(form: Form, folder: Path) -> Model:
    proto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {form.opset}]> {form.text}')
    proto.graph.initializer.extend(
        numpy_helper.from_array(array, name) for name, array in form.tensors.items()
    )
    return loaded(proto, folder)


def feeds_of(model: Model) -> dict[str, np.ndarray]:
    rng, feeds = np.random.default_rng(1), {}
    for value in model.proto.graph.input:
        tensor = value.type.tensor_type
        shape = [d.dim_value or 3 for d in tensor.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if dtype.kind == "f":
            array = np.abs(rng.normal(0, 1, shape)) + 0.01
        else:
            array = rng.integers(0, 2 if dtype.kind == "b" else 100, shape)
        feeds[value.name] = np.asarray(array).astype(dtype)
    return feeds


def size_of_engine(result: Rewritten, folder: Path) -> int:
    profile = {
        value.name: Profile(
            *(tuple(d.dim_value or n for d in value.type.tensor_type.shape.dim) for n in (1, 3, 9))
        )
        for value in result.model.proto.graph.input
        if any(d.HasField("dim_param") for d in value.type.tensor_type.shape.dim)
    }
    return engine_size(result, folder, profile)


@pytest.mark.parametrize("name", FORMS)
def test_the_numbers_stay_and_tensorrt_builds_it(name: str, tmp_path: Path) -> None:
    form = FORMS[name]
    original = opened(form, tmp_path)
    result = rewrite(original, RTX)
    assert not result.declined
    kinds = op_types(result.model)
    for kind in form.kinds:
        assert (kind.lstrip("-") in kinds) is not kind.startswith("-")
    feeds = feeds_of(original)
    expected = run(original, feeds, optimise=False)
    got = run(result.model, feeds, optimise=False)
    for output, array in expected.items():
        np.testing.assert_array_equal(got[output], array)
    assert size_of_engine(result, tmp_path) > 0


def test_a_model_without_such_constants_comes_out_node_for_node(tmp_path: Path) -> None:
    form = Form(
        f"{LAYER} {{ b = DequantizeLinear (w, s) y = MatMul (x, b) }}", {"w": int8(80, 100), "s": ONE}
    )
    original = opened(form, tmp_path)
    result = rewrite(original, RTX)
    assert not result.rewrites
    assert list(result.model.proto.graph.node) == list(original.proto.graph.node)


@pytest.mark.parametrize("table", [int8(20_000, 64), uint8(20_000, 64)], ids=["int8", "uint8"])
def test_a_table_has_a_byte_for_each_element_in_the_engine(table: np.ndarray, tmp_path: Path) -> None:
    text = "g (int64[N] i) => (float[N, 64] y) { a = Gather (w, i) y = DequantizeLinear (a, s, z) }"
    zero = np.array(table.reshape(-1)[0])
    result = rewrite(opened(Form(text, {"w": table, "s": ONE, "z": zero}), tmp_path), RTX)
    assert table.size <= size_of_engine(result, tmp_path) < 1.3 * table.size
    assert sum(t.ByteSize() for t in result.model.proto.graph.initializer) < 1.1 * table.size
