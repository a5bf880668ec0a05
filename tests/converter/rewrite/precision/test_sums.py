"""The number of products that a node sums, and its effect on precision where TensorRT sums in float16."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.converter.rewrite.precision.networks import (
    Changed,
    T,
    error_of,
    made_in,
    network,
    normal,
    reduce_model,
    types_of,
    widen_model,
)
from trtsmith.converter.convert.precision import in_precision
from trtsmith.converter.convert.precision_request import PrecisionRequest
from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.precision.formats import FP16
from trtsmith.converter.rewrite.precision.sums import LONG_SUM, longest_sum, products
from trtsmith.converter.rewrite.rewrite import rewrite
from trtsmith.converter.rewrite.target import RTX, TENSORRT

COUNTS = [
    ("(float[N,6,h,w] x) => (float[N,8,h,w] y) { y = Conv <group = 2, pads = [1,1,1,1]> (x, k) }", (8, 3, 3, 3), 27),
    ("(float[N,6,h] x) => (float[N,8,m] y) { y = Conv (x, k) }", (8, 6, 5), 30),
    ("(float[N,6,h,w] x) => (float[N,8,a,b] y) { y = ConvTranspose <strides = [2,2]> (x, k) }", (6, 8, 3, 4), 24),
    ("(float[N,6,h,w] x) => (float[N,8,a,b] y) { y = ConvTranspose <group = 2> (x, k) }", (6, 4, 2, 2), 12),
    ("(float[N,6,h] x) => (float[N,8,a] y) { y = ConvTranspose <strides = [2], dilations = [2]> (x, k) }", (6, 8, 3), 18),
    ("(float[N,7] x) => (float[N,5] y) { y = MatMul (x, k) }", (7, 5), 7),
    ("(float[N,m] x) => (float[N,5] y) { y = MatMul (x, k) }", (7, 5), 7),
    ("(float[N,7] x) => (float[N] y) { y = MatMul (x, k) }", (7,), 7),
    ("(float[7] x) => (float[5] y) { y = MatMul (x, k) }", (7, 5), 7),
    ("(float[N,m,7] x, float[N,7,m] z) => (float[N,7,7] y) { y = MatMul (z, x) }", (), None),
    ("(float[N,m,7] x, float[N,7,m] z) => (float[N,m,m] y) { y = MatMul (x, z) }", (), 7),
    ("(float[N,7] x) => (float[N,5] y) { y = Gemm (x, k) }", (7, 5), 7),
    ("(float[7,N] x) => (float[N,5] y) { y = Gemm <transA = 1, transB = 1> (x, k) }", (5, 7), 7),
    ("(float[7,N] x, float[m,N] z) => (float[7,m] y) { y = Gemm <transB = 1> (x, z) }", (), None),
    ('(float[N,4,7] x) => (float[N,4,5] y) { y = Einsum <equation = "n h d, d e -> n h e"> (x, k) }', (7, 5), 7),
    ('(float[N,4,7] x) => (float[N,5] y) { y = Einsum <equation = "...hd,hde->...e"> (x, k) }', (4, 7, 5), 28),
    ('(float[N,4,7] x) => (float[N,4,5] y) { y = Einsum <equation = "...d,de"> (x, k) }', (7, 5), 7),
    ('(float[N,m] x) => (float[m,m] y) { y = Einsum <equation = "ni,nj->ij"> (x, x) }', (), None),
]  # fmt: skip


@pytest.mark.parametrize(("body", "shape", "expected"), COUNTS, ids=[c[0].split("{")[1] for c in COUNTS])
def test_products_are_counted(
    tmp_path: Path, body: str, shape: tuple[int, ...], expected: int | None
) -> None:
    (node,) = Graph(network(tmp_path, body, {"k": normal(*shape)} if shape else {})).root.nodes
    assert products(node) == expected


@pytest.mark.parametrize(("op", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_a_recurrent_gate_sums_over_its_inputs_and_its_state(tmp_path: Path, op: str, gates: int) -> None:
    body = f"(float[s,N,7] x) => (float[s,1,N,5] y) {{ y = {op} <hidden_size = 5> (x, w, r) }}"
    weights = {"w": normal(1, gates * 5, 7), "r": normal(1, gates * 5, 5)}
    (node,) = Graph(network(tmp_path, body, weights)).root.nodes
    assert products(node) == 12


NETWORK = """(float[N,64,h,w] x) => (float[N,4,h,w] y) {
    [short] a = Conv (x, k)
    [relu] b = Relu (a)
    [long] c = Conv <pads = [1,1,1,1]> (b, m)
    [end] y = Conv (c, n)
}"""
WEIGHTS = {"k": normal(64, 64, 1, 1), "m": normal(64, 64, 3, 3), "n": normal(4, 64, 1, 1)}


def reduced(folder: Path, **options: object) -> Changed:
    fmt = options.pop("fmt", FP16)
    return reduce_model(network(folder, NETWORK, WEIGHTS), fmt, **options)  # type: ignore[arg-type]


def test_long_sums_of_float16_stay_in_float32_for_tensorrt_rtx(tmp_path: Path) -> None:
    done = reduced(tmp_path, longest=longest_sum(RTX, FP16))
    assert [(k.node, k.reason) for k in done.report.kept] == [("long", LONG_SUM)]
    made = made_in(done.model)
    assert made["long"] == T.FLOAT and made["short"] == made["relu"] == made["end"] == T.FLOAT16
    weights = {t.name: t.data_type for t in done.model.proto.graph.initializer}
    assert weights["m"] == T.FLOAT  # rounded weights would be a needless loss
    original = network(tmp_path, NETWORK, WEIGHTS)
    assert 1e-6 < error_of(done.model, original, {"x": normal(2, 64, 6, 5)}) < 2e-3


@pytest.mark.parametrize(
    "options",
    [
        {"target": TENSORRT, "precision": "fp16"},
        {"target": RTX, "precision": "fp16", "accumulate": "fp16"},
        {"target": RTX, "precision": "fp16"},
        {"target": RTX, "precision": "bf16"},
    ],
    ids=["tensorrt sums in float32", "allowed", "untried", "bfloat16 is summed in float32"],
)
def test_sums_may_be_long_elsewhere(tmp_path: Path, options: dict[str, Any]) -> None:
    target = options.pop("target")
    done = in_precision(
        rewrite(network(tmp_path, NETWORK, WEIGHTS), target), PrecisionRequest(**options)
    ).precision
    assert done is not None and not done.kept


def test_a_sum_of_unknown_length_counts_as_long(tmp_path: Path) -> None:
    body = "(float[N,m] x, float[m,8] z) => (float[N,8] y) { [m] a = MatMul (x, z) [e] y = Relu (a) }"
    done = reduce_model(network(tmp_path, body), FP16, longest=256)
    assert [k.reason for k in done.report.kept] == [LONG_SUM]
    assert not reduce_model(network(tmp_path, body), FP16).report.kept


def test_what_was_decided_once_is_not_judged_again(tmp_path: Path) -> None:
    done = reduced(tmp_path, longest=256, decided={"short": "asked"})
    assert [k.node for k in done.report.kept] == ["short"] and made_in(done.model)["long"] == T.FLOAT16


HALF = """(float16[N,64,h,w] x) => (float16[N,4,h,w] y) {
    [short] a = Conv (x, k)
    [long] c = Conv <pads = [1,1,1,1]> (a, m)
    [soft] d = Softmax <axis = 1> (c)
    [end] y = Conv (d, n)
}"""


def half(folder: Path) -> Model:
    return network(folder, HALF, {name: (array * 0.05).astype(np.float16) for name, array in WEIGHTS.items()})


def test_what_is_float16_already_is_decided_anew(tmp_path: Path) -> None:
    rewritten = rewrite(half(tmp_path), target=RTX)
    done = in_precision(rewritten, PrecisionRequest("fp16", accumulate="fp32"))
    made = made_in(done.model)
    assert made["long"] == made["soft"] == T.FLOAT and made["short"] == made["end"] == T.FLOAT16
    assert done.precision is not None and {k.node for k in done.precision.kept} == {"long", "soft"}
    assert {types_of(done.model)[name] for name in "xy"} == {T.FLOAT16} and done.io_types == ()
    x = normal(2, 64, 6, 5).astype(np.float16).astype(np.float32)
    wide = widen_model(half(tmp_path), wide_io=True).model
    assert error_of(done.model, wide, {"x": x}) < 2e-3
    brain = made_in(in_precision(rewritten, PrecisionRequest("bf16")).model)
    assert brain["short"] == T.BFLOAT16 and brain["soft"] == T.FLOAT


def test_long_sums_of_a_model_s_own_float16_are_warned_of(tmp_path: Path) -> None:
    (warning,) = rewrite(half(tmp_path), target=RTX).warnings()
    assert "as in 'long', the error" in warning and "--precision fp16" in warning
    assert rewrite(half(tmp_path)).warnings() == ()
    assert rewrite(network(tmp_path, NETWORK, WEIGHTS), target=RTX).warnings() == ()
    reduced = in_precision(rewrite(half(tmp_path), target=RTX), PrecisionRequest("fp16"))
    assert reduced.warnings() == ()
    allowed = in_precision(rewrite(half(tmp_path), target=RTX), PrecisionRequest("fp16", accumulate="fp16"))
    assert allowed.warnings() == ()  # it was asked for


def test_long_sums_of_float32_beside_float16_are_no_reason_to_warn(tmp_path: Path) -> None:
    body = """(float16[N,64,h,w] x) => (float16[N,64,h,w] y) {
        wide = Cast <to = 1> (x)
        c = Conv <pads = [1,1,1,1]> (wide, m)
        y = Cast <to = 10> (c)
    }"""
    assert rewrite(network(tmp_path, body, {"m": WEIGHTS["m"]}), target=RTX).warnings() == ()


def test_all_long_sums_are_counted(tmp_path: Path) -> None:
    body = """(float16[N,64,h,w] x) => (float16[N,64,h,w] y) {
        a = Conv <pads = [1,1,1,1]> (x, m) b = Conv <pads = [1,1,1,1]> (a, m) y = Conv <pads = [1,1,1,1]> (b, m)
    }"""
    model = network(tmp_path, body, {"m": WEIGHTS["m"].astype(np.float16)})
    assert "as in 'a' and 2 more, the error" in rewrite(model, target=RTX).warnings()[0]
