"""Gates of squeeze-and-excitation: which nodes they are, their rewritten form, and the numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.converter.rewrite.precision.networks import T, casts, error_of, made_in, network, normal, types_of
from trtsmith.converter.convert.precision import in_precision
from trtsmith.converter.convert.precision_request import PrecisionRequest
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.precision.formats import BF16, FP16, Format
from trtsmith.converter.rewrite.rewrite import Rewritten, rewrite
from trtsmith.converter.rewrite.target import RTX, TENSORRT, Target

BODY = """(float[N,4,h,w] x) => (float[N,4,h,w] y) {
    [conv] a = Conv <pads = [1,1,1,1], group = 4> (x, k)
    [scaled] b = Mul (a, c)
    [pool] p = GlobalAveragePool (b)
    [squeeze] q = Conv (p, w1)
    [gate] g = HardSigmoid (q)
    [excite] e = Mul (g, b)
    [square] s = Mul (e, e)
    [last] y = Relu (s)
}"""
WEIGHTS = {"k": normal(4, 1, 3, 3), "c": normal(4, 1, 1), "w1": normal(4, 4, 1, 1)}


def reduced_to(model: Model, fmt: Format, target: Target, **options: object) -> Rewritten:
    request = PrecisionRequest(fmt.flag, **options)  # type: ignore[arg-type]
    return in_precision(rewrite(model, target), request)


def gates(result: Rewritten) -> set[str]:
    """Names of the nodes that the rule took."""
    return {record.node for record in result.rewrites if record.pass_name == "half-gates"}


@pytest.mark.parametrize("fmt", [FP16, BF16])
def test_a_gate_is_computed_in_float32(tmp_path: Path, fmt: Format) -> None:
    model = network(tmp_path, BODY, WEIGHTS)
    reduced = reduced_to(model, fmt, RTX)
    types = types_of(reduced.model)
    assert made_in(reduced.model)["square"] == fmt.elem
    (excite,) = (node for node in reduced.model.proto.graph.node if node.name == "excite/Mul")
    assert types[excite.output[0]] == T.FLOAT
    makers = {node.output[0]: node for node in casts(reduced.model)}
    assert all(types[makers[name].input[0]] == fmt.elem for name in excite.input)
    readers = {node.input[0]: node for node in casts(reduced.model)}
    assert types[readers[excite.output[0]].output[0]] == fmt.elem
    assert gates(reduced) == {"excite"}
    # Five values are rounded one after the other.
    assert 1e-6 < error_of(reduced.model, model, {"x": normal(2, 4, 6, 5, seed=1)}) < 5 * 2.0**-fmt.digits


def test_a_gate_that_is_kept_in_float32_gets_no_casts_of_its_own(tmp_path: Path) -> None:
    model = network(tmp_path, BODY, WEIGHTS)
    reduced = reduced_to(model, FP16, RTX, keep=("excite",))
    assert made_in(reduced.model)["excite"] == T.FLOAT
    assert gates(reduced) == set()
    assert gates(reduced_to(model, FP16, RTX)) == {"excite"}


def test_tensorrt_needs_no_casts_for_it(tmp_path: Path) -> None:
    reduced = reduced_to(network(tmp_path, BODY, WEIGHTS), FP16, TENSORRT)
    assert made_in(reduced.model)["excite"] == T.FLOAT16 and gates(reduced) == set()


@pytest.mark.parametrize(
    "body",
    [
        "(float[N,4,8,8] x, float[N,4,8,8] g) => (float[N,4,8,8] y) { [m] y = Mul (x, g) }",
        "(float[N,4,1,1] x, float[N,4,1,1] g) => (float[N,4,1,1] y) { [m] y = Mul (x, g) }",
        "(float[2,4,8,8] x, float[2,4,1,1] g) => (float[2,4,8,8] y) { [m] y = Mul (x, g) }",
        "(float[N,4] x, float[N,1] g) => (float[N,4] y) { [m] y = Mul (x, g) }",
        "(float[N,4,8,8] x, float[N,4,1,1] g) => (float[N,4,8,8] y) { [m] y = Add (x, g) }",
    ],
)
def test_what_is_no_gate(tmp_path: Path, body: str) -> None:
    reduced = reduced_to(network(tmp_path, body), FP16, RTX, io=True)
    assert made_in(reduced.model)["m"] == T.FLOAT16 and gates(reduced) == set()
