"""An engine's outputs against onnxruntime's: faults that must not pass, on a fake engine."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.converter.models import inverse, written
from tests.converter.verify.fake_engine import Arrays, at, judged_engine, same
from tests.converter.verify.judging import judged_engine_of
from trtsmith.converter.engine.runtime.run_request import RunRequest
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.rewrite import expand, lowered
from trtsmith.converter.verify import candidate_judge, reduced
from trtsmith.converter.verify.rounding import rounded
from trtsmith.converter.verify.sets import InputSet
from trtsmith.converter.verify.tolerances import parse_tolerances
from trtsmith.converter.verify.verdict import Verdict

X = np.linspace(-2, 3, 36, dtype=np.float32).reshape(2, 3, 6)


def network(folder: Path, body: str = "p = MatMul (x, w) y = Tanh (p) i = ArgMax <axis = 2> (p)") -> Path:
    weights = np.random.default_rng(3).standard_normal((6, 5)).astype(np.float32)
    ends = "(float[N, 3, 6] x) => (float[N, 3, 5] y, int64[N, 3, 1] i)"
    return written(folder / "m.onnx", f"{ends} {{ {body} }}", {"w": weights})


@pytest.fixture
def verify(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Verdict]:
    def verified(planted: Callable[[Arrays], Arrays] = same, body: str = "", **options: Any) -> Verdict:
        path = network(tmp_path, body) if body else network(tmp_path)
        sets = options.pop("sets", (InputSet("", {"x": X}),))
        return judged_engine(monkeypatch, path, sets, planted, **options)

    return verified


@pytest.mark.parametrize("grid", [0.93, 0.79, 0.62])
def test_an_engine_that_rounds_elsewhere_is_no_error(
    grid: float, verify: Callable[..., Verdict], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the edges of a steep map rounding changes few elements much, and each time others."""
    body = """k = Constant <value = float {1000.0}> () p = MatMul (x, w) q = Mul (p, k) y = Sigmoid (q)
        i = ArgMax <axis = 2> (p)"""
    x = np.random.default_rng(2).standard_normal((200, 3, 6)).astype(np.float32)
    elsewhere = expand(rounded(lowered(load_model(network(tmp_path, body))), "fp16", grid=grid))
    found = run(elsewhere, {"x": x}, optimise=False, in_order=True)
    asked: dict[str, Any] = {"body": body, "precision": "fp16", "sets": (InputSet("", {"x": x}),)}
    assert verify(lambda outputs: found, **asked).status == "agree"
    lost = found | {"y": np.where(np.arange(5) == 2, 0, found["y"]).astype(np.float32)}
    assert verify(lambda outputs: lost, **asked).status == "disagree"
    monkeypatch.setattr(candidate_judge, "GRIDS", ())
    assert verify(lambda outputs: found, **asked).status == "disagree"


def test_onnxruntime_has_let_go_of_the_model_when_the_engine_starts(
    verify: Callable[..., Verdict], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the weights would be in memory twice, in this process and in the engine's."""
    sessions: list[weakref.ref[Any]] = []
    opened = reduced.open_session

    def watched(*arguments: Any, **options: Any) -> Any:
        session = opened(*arguments, **options)
        sessions.append(weakref.ref(session))
        return session

    def starts(outputs: Arrays) -> Arrays:
        assert [session() for session in sessions] == [None]
        return outputs

    monkeypatch.setattr(reduced, "open_session", watched)
    gc.disable()  # by reference counts alone: nothing waits for the collector
    try:
        assert verify(starts).passed
    finally:
        gc.enable()


STEEP = "c = Constant <value = float {3e6}> () m = Mul (x, c) p = Sin (m) y = MatMul (p, w) i = ArgMax <axis = 2> (y)"


@pytest.mark.parametrize(("body", "told"), [(STEEP, True), ("", False)])
def test_outputs_that_rounding_decides_are_told(
    body: str, told: bool, verify: Callable[..., Verdict]
) -> None:
    """An engine that is 30 % off; where the model turns 1e-6 of its inputs into as much, that is to be known."""
    verdict = verify(lambda outputs: {**outputs, "y": outputs["y"] * np.float32(1.3)}, body)
    assert verdict.status == "disagree"
    said = [line for line in verdict.references if "ill-conditioned" in line]
    assert len(said) == told and all("'y'" in line for line in said)
    assert ("--inputs FILE.npz" in verdict.advice) == bool(told)


def test_an_engine_that_is_right(verify: Callable[..., Verdict]) -> None:
    verdict = verify(sets=(InputSet("min", {"x": X[:1]}), InputSet("max", {"x": X})))
    assert (verdict.status, verdict.engine_run) == ("agree", True)
    assert [(c.output, c.at, c.shape[0]) for c in verdict.comparisons] == [
        ("y", "min", 1), ("i", "min", 1), ("y", "max", 2), ("i", "max", 2),
    ]  # fmt: skip


def altered(**changes: Callable[[np.ndarray], np.ndarray]) -> Callable[[Arrays], Arrays]:
    return lambda outputs: {name: changes.get(name, lambda a: a)(value) for name, value in outputs.items()}


@pytest.mark.parametrize(
    ("planted", "words"),
    [
        (altered(y=lambda a: a * 1.05), "y: relative error 5.0e-02"),
        (altered(y=at((0, 1, 2), lambda old: np.nan)), "y: nan where"),
        (altered(y=lambda a: a[:1]), "y: shape [1, 3, 5], expected [2, 3, 5]"),
        (altered(y=lambda a: a.astype(np.float16)), "y: dtype float16, expected float32"),
        (altered(i=lambda a: a + 1), "i: 6 of 6 classes differ by more than rounding explains"),
        (lambda o: {"i": o["i"]}, "y: missing"),
    ],
)
def test_an_engine_that_is_wrong(
    planted: Callable[[Arrays], Arrays], words: str, verify: Callable[..., Verdict]
) -> None:
    verdict = verify(planted)
    assert verdict.status == "disagree" and words in verdict.reason


def test_the_precision_decides_what_is_allowed(verify: Callable[..., Verdict]) -> None:
    """0.5% of the norm: more than TF32 makes of one product of six terms, less than twice bfloat16's share."""
    planted = altered(y=lambda a: a * 1.005)
    assert not verify(planted, precision="fp32").passed and not verify(planted, precision="tf32").passed
    assert verify(planted, precision="bf16").passed
    assert not verify(planted, precision="bf16", tolerances=parse_tolerances(["1e-3"])).passed
    strict = verify(precision="fp32")
    assert strict.passed and "without TF32" in strict.precision
    assert verify(precision="tf32").precision.endswith("outputs may differ by 0.002")
    near = verify(altered(y=lambda a: a * np.float32(1.0015)), precision="tf32")
    assert near.passed and "twice what that rounding changes in onnxruntime" in near.precision


def test_a_network_that_amplifies_rounding_is_allowed_more(verify: Callable[..., Verdict]) -> None:
    """The difference of two products that are almost equal: TF32 leaves some percent of it, float32 nothing to see."""
    body = (
        "k = Constant <value = float {1.003}> () z = Mul (x, k) a = MatMul (x, w) b = MatMul (z, w) y = Sub (b, a)"
        "i = ArgMax <axis = 2> (a)"
    )
    planted = altered(y=lambda a: a * 1.1)
    assert verify(planted, body=body, precision="tf32").outputs["y"] == "not comparable"
    assert not verify(planted, body=body, precision="fp32").passed
    assert verify(altered(y=lambda a: a * 20), body=body, precision="tf32").status == "disagree"


def test_outputs_that_rounding_drowns_are_not_compared(verify: Callable[..., Verdict]) -> None:
    """The sine of large products: TF32 leaves nothing of it, so that zeros would be within twice its error."""
    body = (
        "k = Constant <value = float {10000.0}> () m = MatMul (x, w) l = Mul (m, k) y = Sin (l)"
        "i = ArgMax <axis = 2> (m)"
    )
    zeros = altered(y=np.zeros_like)
    verdict = verify(zeros, body=body, precision="tf32")
    assert [c.output for c in verdict.comparisons] == ["i"]
    (left,) = verdict.left_out
    assert left.why.startswith("output 'y' is not comparable: rounding values to tf32 alone changes")
    assert "--atol y:NUMBER" in verdict.advice and verdict.status == "agrees in part"
    asked = verify(zeros, body=body, precision="tf32", tolerances=parse_tolerances(["y:1e-3"]))
    assert not asked.passed and not asked.left_out
    assert not verify(zeros, body=body, precision="fp32").passed


def test_expected_outputs_instead_of_onnxruntimes(verify: Callable[..., Verdict]) -> None:
    kept: list[Arrays] = []
    verify(lambda outputs: kept.append(outputs) or outputs)  # type: ignore[func-returns-value]
    assert verify(expected=[kept[0]]).passed
    assert verify(expected=[kept[0] | {"y": -kept[0]["y"]}]).status == "disagree"


def test_a_model_that_onnxruntime_does_not_run(verify: Callable[..., Verdict], tmp_path: Path) -> None:
    path = inverse(tmp_path / "other.onnx")
    model = load_model(path)
    model.proto.graph.node[0].op_type = "Nobody"
    verdict = judged_engine_of(model, RunRequest(Path("e.plan")), (InputSet("", {"x": X}),))
    assert verdict.status == "not comparable" and verdict.reason.startswith("the original: ")


def test_sizes_that_rounding_moves_are_not_compared(verify: Callable[..., Verdict]) -> None:
    """Values a little above a threshold that fall on it in bfloat16: another number of them remains."""
    body = (
        "t = Constant <value = float {1.0}> () e = Constant <value = float {1.0005}> () y = MatMul (x, w)"
        "z = Sub (y, y) v = Add (z, e) c = Greater (v, t) n = NonZero (c) i = Add (n, n)"
    )
    assert verify(body=body, precision="bf16", exact=()).passed
    moved = altered(i=lambda a: a[:, :0])
    verdict = verify(moved, body=body, precision="bf16", exact=())
    assert verdict.status == "agrees in part" and [c.output for c in verdict.comparisons] == ["y"]
    (left,) = verdict.left_out
    assert (
        left.why
        == "output 'i' is not comparable: its shape is [3, 30], and [3, 0] when values are rounded to bf16"
    )
