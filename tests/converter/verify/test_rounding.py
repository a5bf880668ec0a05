"""Networks with values rounded as a GPU rounds them, against numpy's own rounding."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

from tests.converter.models import inverse, parsed
from tests.converter.rewrite.precision.networks import network, normal
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.rewrite import expand, lowered
from trtsmith.converter.verify.rounding import FP16_SUMS, engine_precision, has_products, rounded

X = np.random.default_rng(1).standard_normal((4, 6)).astype(np.float32)
W = np.random.default_rng(2).standard_normal((6, 5)).astype(np.float32)


EINSUM = 'y = Einsum <equation = "ab,bc->ac"> (x, w)'


def tf32(a: np.ndarray) -> np.ndarray:
    """The 13 low bits of the significand rounded away, to nearest."""
    bits = a.view(np.uint32)
    return (
        (bits + np.uint32(0x0FFF) + ((bits >> np.uint32(13)) & np.uint32(1))) & np.uint32(0xFFFFE000)
    ).view(np.float32)


def model_of(folder: Path, body: str) -> Model:
    product = '<domain: "f", opset_import: ["" : 17]> Product (a, b) => (c) { c = MatMul (a, b) }'
    text = f"(float[4, 6] x, float[6, 5] w) => (float[4, 5] y) {{ {body} }} {product}"
    return parsed(folder / "m.onnx", text)


def ran(
    folder: Path, body: str, precision: str, optimise: bool = True, exact: Collection[str] | None = ()
) -> np.ndarray:
    changed = rounded(model_of(folder, body), precision, exact=exact)
    return run(changed, {"x": X, "w": W}, optimise=optimise)["y"]


@pytest.mark.parametrize("precision", ["tf32", "fp16", "bf16", "fp32"])
def test_another_grid_rounds_as_much_and_leaves_exact_values_alone(precision: str, tmp_path: Path) -> None:
    """Whole numbers have few bits: indices and thresholds stay what they are."""
    model = model_of(tmp_path, "y = MatMul (x, w)")
    right = X.astype(np.float64) @ W
    near, other = (
        run(rounded(model, precision, exact=(), grid=grid), {"x": X, "w": W}, optimise=False)["y"]
        for grid in (1.0, 0.71)
    )
    assert (near != other).any() and np.abs(other - right).max() < 4 * np.abs(near - right).max()
    whole = {"x": np.rint(X), "w": np.rint(W)}
    exact = run(rounded(model, precision, exact=(), grid=0.71), whole, optimise=False)["y"]
    np.testing.assert_array_equal(exact, whole["x"] @ whole["w"])


@pytest.mark.parametrize("body", ["y = MatMul (x, w)", "y = f.Product (x, w)", "y = Gemm (x, w)", EINSUM])
def test_tf32_rounds_the_operands_of_products(body: str, tmp_path: Path) -> None:
    expected = tf32(X).astype(np.float64) @ tf32(W).astype(np.float64)
    assert np.abs(expected - X.astype(np.float64) @ W).max() > 1e-4
    for optimise in (True, False):
        assert ran(tmp_path, body, "tf32", optimise) == pytest.approx(expected, abs=2e-6)


@pytest.mark.parametrize(
    ("body", "multiplies"),
    [
        ("y = MatMul (x, w)", True), ("y = f.Product (x, w)", True), ("y = Add (x, x)", False),
        ("d = Cast <to = 11> (x) e = Cast <to = 11> (w) y = MatMul (d, e)", False),
        ("c = Constant <value = bool {1}> () y = If (c) <then_branch = a () => (float[4, 5] p) { p = MatMul (x, w) },"
         "else_branch = b () => (float[4, 6] q) { q = Neg (x) }>", True),
        ("y = trtsmith.MatMul (x, w)", False),
    ],
)  # fmt: skip
def test_what_has_products_is_known(body: str, multiplies: bool, tmp_path: Path) -> None:
    assert has_products(model_of(tmp_path, body)) is multiplies


def cut(a: np.ndarray) -> np.ndarray:
    """The 13 low bits of the significand left out."""
    return (a.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


@pytest.mark.parametrize("opset", [7, 20])
@pytest.mark.parametrize(
    ("channels", "group", "kernel", "bits"),
    [(1, 1, 3, cut), (16, 1, 2, cut), (17, 1, 2, tf32), (3, 1, 1, tf32), (1, 3, 3, tf32)],
)
def test_tf32_cuts_the_operands_of_convolutions_of_few_channels(
    channels: int,
    group: int,
    kernel: int,
    bits: Callable[[np.ndarray], np.ndarray],
    opset: int,
    tmp_path: Path,
) -> None:
    """Of one output each: then it is a product of matrices. Below a power of two numbers stand closer than above."""
    x = np.random.default_rng(3).standard_normal((9, channels * group, kernel)).astype(np.float32)
    x.reshape(-1)[:6] = [1, np.nextafter(np.float32(1), np.float32(0)), -2, 0, 1 - 2**-11, -(1 + 2**-13)]
    w = np.random.default_rng(4).standard_normal((2 * group, channels, kernel)).astype(np.float32)

    def product(bits: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        rows, columns = (bits(array).astype(np.float64) for array in (x, w))
        parts = zip(np.split(rows, group, 1), np.split(columns, group, 0), strict=True)
        return np.concatenate([np.einsum("nck,ock->no", a, b) for a, b in parts], 1)

    shape = f"float[9, {2 * group}, 1]"
    body = (
        f"(float[9, {channels * group}, {kernel}] x) => ({shape} y) {{ y = Conv <group = {group}> (x, w) }}"
    )
    model = network(tmp_path, body, {"w": w}, opset=opset)
    found = run(rounded(model, "tf32"), {"x": x})["y"][..., 0]
    assert found == pytest.approx(product(bits), rel=1e-6, abs=2e-6)
    assert found != pytest.approx(product(tf32 if bits is cut else cut), rel=1e-6, abs=1e-5)


def test_weights_that_are_nodes_have_channels_too(tmp_path: Path) -> None:
    """As paddle2onnx writes them."""
    x = np.random.default_rng(3).standard_normal((2, 3, 4)).astype(np.float32)
    w = np.random.default_rng(4).standard_normal((2, 3, 4)).astype(np.float32)
    values = ", ".join(map(repr, w.reshape(-1).tolist()))
    body = f"w = Constant <value = float[2, 3, 4] {{{values}}}> () y = Conv (x, w)"
    model = network(tmp_path, f"(float[2, 3, 4] x) => (float[2, 2, 1] y) {{ {body} }}")
    found = run(rounded(model, "tf32"), {"x": x})["y"][..., 0]
    factors = [cut(array).astype(np.float64) for array in (x, w)]
    assert found == pytest.approx(np.einsum("nck,ock->no", *factors), rel=1e-6, abs=1e-6)


def test_tf32_leaves_other_nodes_alone(tmp_path: Path) -> None:
    body = "d = Add (x, x) e = MatMul (d, w) f = MatMul (x, w) g = Sub (e, f) y = Exp (g)"
    both = tf32(X).astype(np.float64) @ tf32(W).astype(np.float64)
    assert ran(tmp_path, body, "tf32") == pytest.approx(np.exp(both), rel=1e-5)


@pytest.mark.parametrize(("precision", "kind"), [("fp16", np.float16), ("bf16", ml_dtypes.bfloat16)])
def test_every_value_is_stored_in_a_half_precision(precision: str, kind: type, tmp_path: Path) -> None:
    x, w = (a.astype(kind).astype(np.float64) for a in (X, W))
    product = (x @ w).astype(np.float32).astype(kind).astype(np.float64)
    root = np.tanh(product).astype(np.float32).astype(kind).astype(np.float32)
    got = ran(tmp_path, "p = MatMul (x, w) y = Tanh (p)", precision)
    assert np.array_equal(got.astype(kind), got.astype(kind)) and np.array_equal(
        got, got.astype(kind).astype(np.float32)
    )
    assert np.mean(got == root) > 0.9 and got == pytest.approx(root, rel=2e-2)


def test_what_overflows_stays_wide(tmp_path: Path) -> None:
    body = "p = MatMul (x, w) k = Constant <value = float {12.0}> () c = Abs (p) d = Add (c, k) y = Exp (d)"
    wide = ran(tmp_path, body, "fp16", exact=None)
    assert np.isfinite(wide).all() and wide.max() > 65504
    assert np.isinf(ran(tmp_path, body, "fp16")).any()


def test_branches_are_rounded_too(tmp_path: Path) -> None:
    body = (
        "c = Constant <value = bool {1}> () y = If (c) <then_branch = a () => (float[4, 5] p) { p = MatMul (x, w) },"
        "else_branch = b () => (float[4, 5] q) { q = MatMul (x, w) }>"
    )
    expected = tf32(X).astype(np.float64) @ tf32(W).astype(np.float64)
    assert ran(tmp_path, body, "tf32") == pytest.approx(expected, abs=2e-6)
    assert ran(tmp_path, body, "bf16") == pytest.approx(X @ W, rel=0.5, abs=0.1)


def test_custom_operators_are_stored_and_compute_in_float32(tmp_path: Path) -> None:
    model = load_model(inverse(tmp_path / "m.onnx"))
    model.proto.graph.node[1].domain = "trtsmith"
    model.proto.graph.node[1].op_type = "MatrixInverse"
    model.proto.opset_import.add(domain="trtsmith", version=1)
    x = (np.eye(4) * 2 + np.random.default_rng(0).standard_normal((2, 4, 4)) / 9).astype(np.float32)
    got = run(expand(rounded(lowered(model), "fp16", exact=())), {"x": x})["y"]
    stored = -x.astype(np.float16).astype(np.float64)
    assert got == pytest.approx(np.linalg.inv(stored), rel=1e-3, abs=1e-3)
    assert np.array_equal(got, got.astype(np.float16).astype(np.float32))


def test_results_of_fp32_have_20_bits_and_infinities_stay(tmp_path: Path) -> None:
    x = np.array([[1 + 2.0**-19, 1 + 2.0**-20 * 1.5, -3.4e38, np.inf, -np.inf]], np.float32)
    model = parsed(tmp_path / "m.onnx", "(float[1, 5] x) => (float[1, 5] y) { y = Neg (x) }")
    got = run(rounded(model, "fp32"), {"x": x}, optimise=False)["y"]
    assert got.tolist() == [[-1 - 2.0**-19, -1 - 2.0**-19, float(np.float32(3.4e38)), -np.inf, np.inf]]


def test_engines_of_fp32_compute_in_tf32() -> None:
    asked = ("fp32", "float32", "fp16", "float16", "bf16", "bfloat16", "int8")
    assert [engine_precision(p) for p in asked] == ["tf32", "tf32", "fp16", "fp16", "bf16", "bf16", "int8"]


def test_products_that_stay_in_float32_are_in_tf32(tmp_path: Path) -> None:
    """An engine in half precision computes what stays in float32 as one in float32 does."""
    expected = tf32(X).astype(np.float64) @ tf32(W).astype(np.float64)
    found = ran(tmp_path, "y = MatMul (x, w)", "bf16", exact={"y"}, optimise=False)
    assert found == pytest.approx(expected, abs=2e-6)


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_statistics_of_a_norm_are_exact(precision: str, tmp_path: Path) -> None:
    """A variance of 1e8 is infinite in float16, and the channel would be its shift alone."""
    u, v = [1.001, 2.001, 3.001, 4.001, 30015.0], [1.0, 1.0, 1.0, 1.0, 1e8]
    floats = [f"float[5] {{{', '.join(map(repr, values))}}}" for values in (u, v)]
    constants = " ".join(f"{n} = Constant <value = {f}> ()" for n, f in zip("uv", floats, strict=True))
    body = f"p = MatMul (x, w) {constants} y = BatchNormalization (p, u, u, u, v)"
    product = ran(tmp_path, "y = MatMul (x, w)", precision, optimise=False).astype(np.float64)
    expected = (product - u) / np.sqrt(np.array(v) + 1e-5) * u + u
    found = ran(tmp_path, body, precision, optimise=False)
    assert found == pytest.approx(expected, rel=2.0**-11 if precision == "fp16" else 2.0**-8)


def test_sums_of_float16_are_emulated_where_the_target_forms_them(tmp_path: Path) -> None:
    body = "(float[N,1024] x) => (float[N,64] y) { [long] y = MatMul (x, k) }"
    model, x = network(tmp_path, body, {"k": normal(1024, 64)}), normal(64, 1024)
    exact = run(model, {"x": x})["y"]

    def error(precision: str, **options: Any) -> float:
        found = run(rounded(model, precision, **options), {"x": x}, optimise=False)["y"]
        return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))

    assert error(FP16_SUMS) > 2.5 * error("fp16")
    assert rounded(model, FP16_SUMS, exact={"long"}).proto == rounded(model, "fp16", exact={"long"}).proto
    assert engine_precision("float16", float16_sums=True) == FP16_SUMS
    assert engine_precision("float16") == engine_precision("fp16") == "fp16"
    assert engine_precision("bfloat16", float16_sums=True) == "bf16"


def test_lengths_of_sums_are_those_of_the_inputs(tmp_path: Path) -> None:
    """Two sets of one model may have other sizes: the graph stays dynamic."""
    body = "(float[N,m] x, float[m,64] z) => (float[N,64] y) { y = MatMul (x, z) }"
    model, feeds = network(tmp_path, body), {"x": normal(64, 2048), "z": normal(2048, 64)}
    errors = []
    for sizes in (feeds, {"x": normal(64, 16), "z": normal(16, 64)}):
        graph = rounded(model, FP16_SUMS, feeds=sizes)
        exact, found = run(model, feeds)["y"], run(graph, feeds, optimise=False)["y"]
        errors.append(np.linalg.norm(found - exact) / np.linalg.norm(exact))
    assert errors[0] > 3 * errors[1]


@pytest.mark.parametrize("precision", ["fp32", "tf32"])
def test_a_model_of_float16_is_rounded_in_its_own_type(precision: str, tmp_path: Path) -> None:
    """An engine keeps wide what it fuses: of the model's own roundings it has some, and others elsewhere."""
    body = "a = Mul (x, x) b = Add (a, x) c = Transpose (b) y = Relu (c)"
    model = parsed(tmp_path / "m.onnx", f"(float16[4, 6] x) => (float16[6, 4] y) {{ {body} }}")
    x = X.astype(np.float16)
    plain = run(model, {"x": x})["y"].astype(np.float64)
    moved = [run(rounded(model, precision, grid=grid), {"x": x}, optimise=False)["y"] for grid in (1.0, 0.83)]
    assert all(one.dtype == np.float16 for one in moved)
    off = [np.abs(one - plain) / np.maximum(np.abs(x.T), 1) for one in moved]
    assert all(0 < one.max() < 16 * 2.0**-11 for one in off) and not np.array_equal(*moved)
    text = "(float16[4, 6] x) => (float16[2] y) { i = Shape (x) f = Cast <to = 10> (i) y = Relu (f) }"
    whole = np.arange(24, dtype=np.float16).reshape(4, 6)
    counted = run(rounded(parsed(tmp_path / "n.onnx", text), precision), {"x": whole}, optimise=False)["y"]
    assert counted.tolist() == [4, 6]


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("how", ["align_corners", "half_pixel"])
def test_a_resize_in_fp32_reads_beside_its_positions(mode: str, how: str, tmp_path: Path) -> None:
    """As far as PyTorch's own float32 does, whose positions are rounded in another order."""
    body = f"""(float[1,2,37,37] x) => (float[1,2,518,518] y) {{
        y = Resize <mode = "{mode}", coordinate_transformation_mode = "{how}", cubic_coeff_a = -0.75> (x, , , sizes) }}"""
    model = network(tmp_path, body, {"sizes": np.array([1, 2, 518, 518])})
    x = normal(1, 2, 37, 37)
    exact = run(model, {"x": x})["y"]
    seen = [run(rounded(model, "fp32", grid=grid), {"x": x}, optimise=False)["y"] for grid in (1.0, 0.83)]
    there = {"mode": f"bi{mode}", "align_corners": how == "align_corners"}
    torch_x = torch.nn.functional.interpolate(torch.from_numpy(x), (518, 518), **there).numpy()
    small = np.abs(exact) < 0.01  # what rounding the values themselves changes is next to nothing there
    found = [np.abs(one - exact)[small] for one in seen]
    assert (found[0] != found[1]).any()
    off = np.abs(torch_x - exact)[small].max()
    assert 0.01 * 2.0**-20 < off < 2 * min(one.max() for one in found)


def test_a_resize_that_copies_is_exact_in_fp32(tmp_path: Path) -> None:
    body = """(float[1,2,3,3] x) => (float[1,2,6,6] y) { y = Resize <mode = "nearest"> (x, , scales) }"""
    model = network(tmp_path, body, {"scales": np.array([1, 1, 2, 2], np.float32)})
    x = np.round(normal(1, 2, 3, 3), 1).astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(run(rounded(model, "fp32"), {"x": x})["y"], run(model, {"x": x})["y"])
