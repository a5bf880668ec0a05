"""A network that a precision would hardly change stays in float32."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.converter.rewrite.precision.networks import network, normal, reduce_model
from trtsmith.converter.convert.precision import brought_to, in_precision
from trtsmith.converter.convert.precision_request import PrecisionRequest
from trtsmith.converter.rewrite.precision.formats import FORMATS
from trtsmith.converter.rewrite.rewrite import Rewritten, rewrite

_QUANTIZED = """(float[N,64] x) => (float[N,2] y) {
    steps, scale, zero = DynamicQuantizeLinear (x)
    sums = MatMulInteger (steps, w, zero)
    real = Cast <to = 1> (sums)
    scaled = Mul (real, scale)
    hidden = Relu (scaled)
    y = MatMul (hidden, head)
}"""


def _quantized(folder: Path, width: int) -> Rewritten:
    rng = np.random.default_rng(0)
    weights = {"w": rng.integers(-9, 9, (64, width)).astype(np.int8), "head": normal(width, 2)}
    return rewrite(network(folder, _QUANTIZED, weights))


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_a_quantized_network_with_a_small_float_head_stays_as_it_is(tmp_path: Path, precision: str) -> None:
    """64 to 64 products in integers for each row, and 64 to 2 in float32: 3 %."""
    before = _quantized(tmp_path, 64)
    request = PrecisionRequest(precision)
    after = in_precision(before, request)
    assert after.model.proto == before.model.proto
    assert after.precision.share == pytest.approx(2 / 66) and brought_to(request, after.precision) == "fp32"
    assert (
        after.precision.summary()
        == "the network stays in float32: 3.0% of its products are not of whole numbers"
    )


def test_a_network_that_gains_is_reduced(tmp_path: Path) -> None:
    body = "(float[N,64] x) => (float[N,2] y) { h = MatMul (x, w) z = Sigmoid (h) y = MatMul (z, head) }"
    weights = {"w": normal(64, 64), "head": normal(64, 2)}
    after = in_precision(rewrite(network(tmp_path, body, weights)), PrecisionRequest("fp16"))
    assert after.precision.share is None and after.precision.reduced >= 2


@pytest.mark.parametrize(
    ("precision", "most", "told"), [("fp16", 2e5, True), ("fp16", 2.0, False), ("bf16", 2e5, False)]
)
def test_a_precision_that_reaches_few_products_is_a_warning(
    tmp_path: Path, precision: str, most: float, told: bool
) -> None:
    """The two products read or write a value that float16 does not hold. The flag that the warning offers reaches both."""
    body = "(float[N,64] x) => (float[N,2] y) { [first] h = MatMul (x, w) [last] y = MatMul (h, head) }"
    weights = {"w": normal(64, 64), "head": normal(64, 2)}
    reduction = reduce_model(network(tmp_path, body, weights), FORMATS[precision], seen={"h": most})
    report = reduction.report
    assert (report.products, report.products_reduced) == (2, 0 if told else 2)
    beyond = "'h' reached 2e+05 on the inputs; float16 ends at 65504 (first)"
    few = f"0 of 2 matrix products and convolutions are in float16; 2 × {beyond}"
    assert report.warning() == (f"{few}; --precision bf16 has the range of float32" if told else "")


def test_what_the_user_keeps_in_float32_is_no_warning(tmp_path: Path) -> None:
    body = "(float[N,64] x) => (float[N,2] y) { [first] h = MatMul (x, w) [last] y = MatMul (h, head) }"
    model = network(tmp_path, body, {"w": normal(64, 64), "head": normal(64, 2)})
    report = reduce_model(model, FORMATS["fp16"], keep=["MatMul"]).report
    assert (report.products, report.warning()) == (0, "") and len(report.kept) == 2
