"""Products of quantized numbers stay in float32, where their sums are exact; others do not change."""

from pathlib import Path

import numpy as np
import pytest

from tests.converter.rewrite.precision.networks import network, normal
from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.rewrite.precision.formats import FORMATS
from trtsmith.converter.rewrite.precision.judge import WHOLE_SUM
from trtsmith.converter.rewrite.precision.reduce import reduce_precision

WHOLE = np.arange(-32, 32, dtype=np.float32).reshape(8, 8)
BESIDE = "m = Sigmoid (c) z = MatMul (m, v) }"
ROUNDED = (
    "(float[N, 8] x) => (float[N, 8] y, float[N, 8] z) { r = Round (x) c = Sub (r, p) y = MatMul (c, w) "
    + BESIDE
)
BYTES = (
    "(uint8[N, 8] x) => (float[N, 8] y, float[N, 8] z) { r = Cast <to = 1> (x) c = Sub (r, p) y = MatMul (c, w) "
    + BESIDE
)
PLAIN = "(float[N, 8] x) => (float[N, 8] y, float[N, 8] z) { c = Sub (x, p) y = MatMul (c, w) " + BESIDE


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize(
    ("body", "weights", "kept"),
    [
        (ROUNDED, WHOLE, True),
        (BYTES, WHOLE, True),
        (PLAIN, WHOLE, False),
        (ROUNDED, normal(8, 8), False),
    ],
)
def test_products_of_whole_numbers_stay_in_float32(
    body: str, weights: np.ndarray, kept: bool, fmt: str, tmp_path: Path
) -> None:
    tensors = {"w": weights, "p": np.array(3, np.float32), "v": normal(8, 8)}
    done = reduce_precision(Graph(network(tmp_path, body, tensors)), FORMATS[fmt])
    reasons = [one.reason for one in done.report.kept if one.op_type == "MatMul"]
    assert reasons == ([WHOLE_SUM] if kept else [])
