"""16-bit attention with a guard against NaN: TensorRT-RTX's refusal, its rewritten graph, and the numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.converter.rewrite.precision.networks import network, normal
from tests.converter.rewrite.running import engine_size, loaded
from tests.rule_examples.matrices.guarded_softmax import CHOICE, LOWEST, attention
from trtsmith.converter.base.errors import ConversionError
from trtsmith.converter.convert.precision import in_precision
from trtsmith.converter.convert.precision_request import PrecisionRequest
from trtsmith.converter.engine.builder.build_request import Profile
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.precision.emulate import emulated
from trtsmith.converter.rewrite.precision.formats import BF16, FP16, Format
from trtsmith.converter.rewrite.rewrite import Rewritten, rewrite
from trtsmith.converter.rewrite.rules import RULES
from trtsmith.converter.rewrite.rules.matrices.guarded_softmax import guarded_softmax_rule
from trtsmith.converter.rewrite.target import RTX, TENSORRT, Target

BODY = """(float[N,L,32] x, bool[N,1,1,L] keep) => (float[N,L,32] y) {
    mask = Where (keep, zero, closed)
    queries = MatMul (x, wq)
    keys = MatMul (x, wk)
    values = MatMul (x, wv)
    qs = Reshape (queries, heads)
    ks = Reshape (keys, heads)
    vs = Reshape (values, heads)
    q = Transpose <perm = [0, 2, 1, 3]> (qs)
    k = Transpose <perm = [0, 2, 3, 1]> (ks)
    v = Transpose <perm = [0, 2, 1, 3]> (vs)
    products = MatMul (q, k)
    scores = Add (products, mask)
    p = Softmax <axis = -1> (scores)
    missing = IsNaN (p)
    weights = Where (missing, zero, p)
    [read] rows = MatMul (weights, v)
    parts = Transpose <perm = [0, 2, 1, 3]> (rows)
    joined = Reshape (parts, whole)
    y = MatMul (joined, wo)
}"""
KEPT = np.array([[1, 0, 1, 1, 0], [0, 0, 0, 0, 0]], bool).reshape(2, 1, 1, 5)


def layer(folder: Path, closed: float, ranging: bool = True) -> Model:
    """A layer of attention of two heads, as PyTorch writes it for a mask of padding."""
    body = BODY if ranging else BODY.replace("N,", "2,").replace("L]", "5]").replace("L,", "5,")
    weights = {name: normal(32, 32, scale=0.3, seed=i) for i, name in enumerate(("wq", "wk", "wv", "wo"))}
    numbers = {"zero": np.float32(0), "closed": np.float32(closed)}
    shapes = {"heads": np.array([0, 0, 2, 16]), "whole": np.array([0, 0, 32])}
    return network(folder, body, {**weights, **numbers, **shapes})


def reduced_to(model: Model, fmt: Format, target: Target = RTX) -> Rewritten:
    """With the Softmax in float32, as where its scores leave the range of the type."""
    return in_precision(rewrite(model, target), PrecisionRequest(fmt.flag, keep=("Softmax", "IsNaN")))


def taken(result: Rewritten) -> set[str]:
    """Names of the nodes that the rule took."""
    return {record.node for record in result.rewrites if record.pass_name == guarded_softmax_rule.name}


def guard_of(result: Rewritten) -> str:
    """Where zeros are chosen: "weights", "rows" of the result, or nowhere."""
    kinds = {node.op_type for node in result.model.proto.graph.node}
    return "weights" if "IsNaN" in kinds else "rows" if "ReduceMax" in kinds else ""


def build_model(result: Rewritten, folder: Path, ranging: bool) -> int:
    """Size of the engine."""
    sizes = [(batch, length) for batch, length in ((1, 2), (2, 5), (4, 40))]
    profile = {
        "x": Profile(*((n, length, 32) for n, length in sizes)),
        "keep": Profile(*((n, 1, 1, length) for n, length in sizes)),
    }
    return engine_size(result, folder, profile if ranging else None)


@pytest.mark.parametrize("fmt", [FP16, BF16])
@pytest.mark.parametrize("ranging", [False, True])
@pytest.mark.parametrize("closed", [-np.inf, float(LOWEST)])
def test_tensorrt_builds_it(tmp_path: Path, fmt: Format, ranging: bool, closed: float) -> None:
    reduced = reduced_to(layer(tmp_path, closed, ranging), fmt)
    assert taken(reduced) == {"read"}
    assert build_model(reduced, tmp_path, ranging) > 0


def test_tensorrt_refuses_it_as_it_comes(tmp_path: Path) -> None:
    model = layer(tmp_path, -np.inf, ranging=False)
    others = tuple(rule for rule in RULES if rule is not guarded_softmax_rule)
    plain = in_precision(
        rewrite(model, RTX, rules=others), PrecisionRequest("fp16", keep=("Softmax", "IsNaN"))
    )
    with pytest.raises(ConversionError, match="is_softmax"):
        build_model(plain, tmp_path, ranging=False)


@pytest.mark.parametrize("fmt", [FP16, BF16])
@pytest.mark.parametrize("closed", [-np.inf, float(LOWEST)])
def test_the_numbers_are_those_of_the_guard(tmp_path: Path, fmt: Format, closed: float) -> None:
    model = layer(tmp_path, closed)
    feeds = {"x": normal(2, 5, 32, seed=9), "keep": KEPT}
    reduced, left = reduced_to(model, fmt), reduced_to(model, fmt, TENSORRT)
    assert guard_of(reduced) == ("rows" if np.isinf(closed) else "")
    assert guard_of(left) == "weights" and not taken(left)
    found, same = (run(emulated(one.model), feeds, optimise=False)["y"] for one in (reduced, left))
    np.testing.assert_array_equal(found, same)
    assert not found[1].any() or not np.isinf(closed)


@pytest.mark.parametrize(
    ("form", "guard"),
    [
        (("scores = Mul (a, scale)",), ""),
        (("scores = Add (a, causal)",), ""),
        (("scores = Add (causal, a)",), ""),
        (("scores = Add (a, bias)", ", float[4,4] bias"), "rows"),
        ((CHOICE, ", bool[4,4] keep"), "rows"),
        ((CHOICE, ", bool[4,4] keep", LOWEST), ""),
        (("scores = Where (keep, a, closed)", ", bool[4,4] keep", LOWEST), ""),
        (("scores = Where (keep, a, closed)", ", bool[4,4] keep"), "weights"),
        (("mask = Expand (closed, size)\n scores = Add (a, mask)", ", int64[1] size"), "rows"),
        (("mask = Expand (closed, size)\n scores = Add (a, mask)", ", int64[1] size", LOWEST), ""),
        (("mask = Where (keep, causal, zero)\n scores = Add (a, mask)", ", bool[4,4] keep"), "rows"),
        (("mask = Transpose <perm = [1, 0]> (causal)\n scores = Add (a, mask)",), ""),
        (("b = Add (a, closed)\n scores = Add (b, causal)", "", LOWEST), "weights"),
        (("scores = Sub (a, bias)", ", float[4,4] bias"), "weights"),
    ],
)
def test_the_guard_goes_where_no_row_can_be_masked_whole(
    tmp_path: Path, form: tuple[str, ...], guard: str
) -> None:
    result = rewrite(loaded(attention(*form), tmp_path), RTX)
    assert taken(result) and guard_of(result) == guard


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Where (missing, zero, p)", "Where (missing, scale, p)"),
        ("Where (missing, zero, p)", "Where (missing, p, zero)"),
        ("IsNaN (p)", "IsNaN (scores)"),
        ("p = Softmax <axis = -1> (scores)", "p = Softmax <axis = 1> (scores)"),
        ("p = Softmax <axis = -1> (scores)", "p = Exp (scores)"),
    ],
)
def test_what_is_no_guard_of_rows(tmp_path: Path, old: str, new: str) -> None:
    text = attention("scores = Add (a, causal)")
    assert old in text
    assert not taken(rewrite(loaded(text.replace(old, new), tmp_path), RTX))


def test_float32_and_whole_float16_stay_as_they_are(tmp_path: Path) -> None:
    """TensorRT-RTX builds both, and fuses the second."""
    assert not taken(rewrite(layer(tmp_path, -np.inf), RTX))
    body = """(float16[2,2,4,16] q, float16[2,2,16,4] k, float16[2,2,4,16] v) => (float16[2,2,4,16] y) {
        scores = MatMul (q, k)
        p = Softmax <axis = -1> (scores)
        missing = IsNaN (p)
        weights = Where (missing, zero, p)
        y = MatMul (weights, v)
    }"""
    assert not taken(rewrite(network(tmp_path, body, {"zero": np.float16(0)}), RTX))
