"""The numbers of reduced graphs, against numpy's float16 and PyTorch's half-precision runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tests.converter.rewrite.precision.networks import network, normal, reduce_model
from trtsmith.converter.graph.infer import infer_shapes
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.precision.emulate import emulated
from trtsmith.converter.rewrite.precision.formats import BF16, FORMATS, FP16, Format
from trtsmith.converter.rewrite.precision.widen import measured_run
from trtsmith.converter.rewrite.rewrite import expand, rewrite
from trtsmith.converter.verify.allowance import FACTOR, PROVES
from trtsmith.converter.verify.baseline import Arithmetic, Baseline
from trtsmith.converter.verify.sets import InputSet

DTYPES = {"fp16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}


def magnitudes(model: Model, feeds: dict[str, np.ndarray]) -> dict[str, float]:
    measured = measured_run(model, feeds)
    assert measured is not None
    return dict(measured.magnitudes)


def relative(actual: np.ndarray, expected: np.ndarray) -> float:
    return float(np.linalg.norm(actual.astype(np.float64) - expected) / np.linalg.norm(expected))


def rounded(array: np.ndarray, fmt: Format) -> np.ndarray:
    """numpy's and ml_dtypes' own conversion: to nearest, ties to even."""
    return array.astype(DTYPES[fmt.flag]).astype(np.float32)


@pytest.mark.parametrize("fmt", [FP16, BF16])
def test_two_layers_are_what_numpy_computes_in_the_type(tmp_path: Path, fmt: Format) -> None:
    """Weights, inputs and the result of each layer are rounded once; products are summed in float32."""
    body = """(float[N,32] x) => (float[N,8] y) {
        [m] a = MatMul (x, w)
        [r] b = Relu (a)
        [n] c = MatMul (b, v)
        [s] y = Softmax (c) }"""
    w, v, x = normal(32, 16), normal(16, 8, seed=1), normal(5, 32, seed=2)
    reduced = reduce_model(network(tmp_path, body, {"w": w, "v": v}), fmt)
    hidden = np.maximum(rounded(rounded(x, fmt) @ rounded(w, fmt), fmt), 0)
    logits = rounded(hidden @ rounded(v, fmt), fmt)
    expected = np.exp(logits - logits.max(-1, keepdims=True))
    expected /= expected.sum(-1, keepdims=True)
    actual = run(emulated(reduced.model), {"x": x}, optimise=False)["y"]
    np.testing.assert_allclose(actual, expected, rtol=2e-6)
    assert relative(x @ w, rounded(rounded(x, fmt) @ rounded(w, fmt), fmt)) > 1e-5  # the rounding is there


def test_the_emulation_overflows_where_float16_does(tmp_path: Path) -> None:
    body = "(float[1,8] x) => (float[1,8] y) { [m] a = MatMul (x, w)\n [n] y = Relu (a) }"
    weights = {"w": np.eye(8, dtype=np.float32) * 300}
    model = network(tmp_path, body, weights)
    x = np.array([[1, 200, 218, 219, 1000, -300, 0, 5]], np.float32)
    actual = run(emulated(reduce_model(model, FP16).model), {"x": x}, optimise=False)["y"]
    with np.errstate(over="ignore"):
        expected = np.maximum((x * 300).astype(np.float16).astype(np.float32), 0)
    assert np.isinf(expected).sum() == 2
    np.testing.assert_array_equal(actual, expected)
    seen = magnitudes(model, {"x": x})
    assert seen == {"x": 1000.0, "a": 300000.0, "y": 300000.0}
    kept = reduce_model(model, FP16, seen=seen)
    assert {k.node for k in kept.report.kept} == {"m", "n"}
    assert all("3e+05" in k.reason and "65504" in k.reason for k in kept.report.kept)
    np.testing.assert_array_equal(run(emulated(kept.model), {"x": x})["y"], np.maximum(x * 300, 0))


def test_values_below_everything_are_found(tmp_path: Path) -> None:
    body = "(float[1,8] x) => (float[1,8] y) { [m] a = MatMul (x, w)\n [n] y = Sigmoid (a) }"
    model = network(tmp_path, body, {"w": np.eye(8, dtype=np.float32)})
    seen = magnitudes(model, {"x": np.full((1, 8), 1e-9, np.float32)})
    kept = {k.node: k.reason for k in reduce_model(model, FP16, seen=seen).report.kept}
    assert "zero" in kept["m"] and "1e-09" in kept["m"]
    assert reduce_model(model, BF16, seen=seen).report.kept == ()


def test_the_outputs_are_those_of_an_ordinary_run(tmp_path: Path) -> None:
    body = "(float[1,8] x) => (float[1,8] y, float[1,8] a) { a = MatMul (x, w) y = Sigmoid (a) }"
    model = network(tmp_path, body, {"w": np.eye(8, dtype=np.float32)})
    measured, x = measured_run(model, {"x": np.ones((1, 8), np.float32)}), {"x": np.ones((1, 8), np.float32)}
    assert measured is not None and list(measured.outputs) == ["y", "a"]
    for name, value in run(model, x).items():
        np.testing.assert_array_equal(measured.outputs[name], value)


def test_magnitudes_leave_out_what_is_not_finite_and_take_empty_tensors(tmp_path: Path) -> None:
    body = """(float[N] x, int64[1] n) => (float[M] y, float[N] z) {
        y = Slice (x, n, n)
        z = Div (x, zero) }"""
    model = network(tmp_path, body, {"zero": np.array(0, np.float32)}, opset=13)
    seen = magnitudes(model, {"x": np.array([-3, 0, 2], np.float32), "n": np.array([1])})
    assert seen == {"x": 3.0, "y": 0.0, "z": 0.0}
    unloaded = network(tmp_path, "(float[N] x) => (float[N] y) { y = Relu (x) }", opset=10)
    assert measured_run(unloaded, {"x": np.ones(3, np.float32)}) is None


class Network:
    """A model's small variant: rewritten, expanded, what that gives for its inputs, and the largest values meanwhile."""

    def __init__(self, path: Path, inputs: Path) -> None:
        self.path = path
        self.feeds = dict(np.load(inputs))
        self.model = rewrite(load_model(path)).model
        self.plain = expand(self.model)
        self.exact = run(self.plain, self.feeds)
        self.seen = magnitudes(self.plain, self.feeds)


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Network]:
    """By name; each is made once."""
    pytest.importorskip("torch")
    from tests.exports import exported

    @cache
    def made(name: str) -> Network:
        files = exported(name, tmp_path_factory)
        return Network(files.model, files.inputs)

    return made


@cache
def own_error(name: str, flag: str, autocast: bool) -> dict[str, float]:
    """PyTorch's own run of the network with values of the type, against its float32 run."""
    import torch

    from models import MODELS
    from tests.half_storage import HalfStorage

    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}[flag]
    module, inputs = MODELS[name].make(small=True)
    with torch.inference_mode():
        exact = module(*inputs.values())
        if autocast:  # linalg.inv has no half: geometry runs under autocast alone
            with HalfStorage(), torch.autocast("cpu", dtype=dtype):
                reduced = module(*inputs.values())
        else:
            module, narrow = module.to(dtype), [value.to(dtype) for value in inputs.values()]
            with HalfStorage():
                reduced = module(*narrow)
    return {
        output: relative(r.float().numpy(), e.numpy())
        for output, r, e in zip(MODELS[name].output_names, reduced, exact, strict=True)
    }


NETWORKS = [
    ("centernet_dcn", False),
    ("deformable_detr", False),
    ("dino_decoder", False),
    ("bevformer_layer", False),
    ("basicvsrpp_alignment", False),
    ("geometry", True),
]


@pytest.mark.parametrize("plugins", [True, False], ids=["plugins", "expanded"])
@pytest.mark.parametrize("flag", FORMATS)
@pytest.mark.parametrize(("name", "autocast"), NETWORKS)
def test_networks_lose_at_most_twice_what_pytorch_loses(
    networks: Callable[[str], Network], name: str, autocast: bool, flag: str, plugins: bool
) -> None:
    network = networks(name)
    reduced = reduce_model(
        network.model if plugins else infer_shapes(network.plain), FORMATS[flag], seen=network.seen
    )
    actual = run(emulated(expand(reduced.model)), network.feeds, optimise=False)
    for output, error in own_error(name, flag, autocast).items():
        assert relative(actual[output], network.exact[output]) <= 2 * error, output
    assert reduced.report.reduced > len(reduced.report.kept) // 5  # and it is not for want of trying


@pytest.mark.parametrize("flag", FORMATS)
@pytest.mark.parametrize(("name", "autocast"), NETWORKS)
def test_the_tolerance_is_that_of_pytorch_s_run(
    networks: Callable[[str], Network], name: str, autocast: bool, flag: str
) -> None:
    """What a precision costs by our own reckoning, which needs no framework, is what it costs PyTorch.

    Or less: positions that are made in float32 stay so, which PyTorch rounds.
    """
    files = networks(name)
    baseline = Baseline(load_model(files.path), [InputSet("", files.feeds)])
    exact, narrow = baseline.plain, baseline.rounded(Arithmetic(flag, frozenset()))
    assert narrow is not None
    for output, error in own_error(name, flag, autocast).items():
        cost = relative(narrow[0][output], exact[0][output])
        assert 0.1 * error <= cost <= 1.5 * error, output
        if not autocast:  # geometry's inverse stays in float32 in engines
            assert FACTOR * cost < PROVES, f"with the weights of models/, {output} proves nothing in {flag}"
