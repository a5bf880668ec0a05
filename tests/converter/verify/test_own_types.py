"""Models in float16 and bfloat16 run in their own types, and overflows are reported by node."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.converter.cli.commands.running import Ran, trtsmith
from tests.converter.models import parsed
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.verify.baseline import Arithmetic, Baseline, Original
from trtsmith.converter.verify.candidate_judge import judge, judge_outputs
from trtsmith.converter.verify.candidates import own_graph, rewritten_graph
from trtsmith.converter.verify.sets import InputSet

X = np.linspace(100, 800, 64, dtype=np.float16).reshape(1, 64)


def saved(folder: Path, body: str, edges: str = "float16[1,64] x) => (float16[1,64] y") -> Path:
    text = f'<ir_version: 10, opset_import: ["" : 20]> g ({edges}) {{ {body} }}'
    onnx.save(onnx.parser.parse_model(text), folder / "m.onnx")
    return folder / "m.onnx"


def square_and_root(folder: Path) -> Model:
    return load_model(saved(folder, "s = Mul (x, x) y = Sqrt (s)"))


def test_values_are_rounded_as_they_are_declared(tmp_path: Path) -> None:
    """onnxruntime keeps the square in float32, and gives 300 where float16 has no such square."""
    found = Original(square_and_root(tmp_path)).run({"x": X})["y"]
    squares = X.astype(np.float64) ** 2
    assert found.dtype == np.float16 and np.array_equal(np.isinf(found), squares > 65519)
    assert np.isinf(found).any() and np.isfinite(found).any()


def judged_with(folder: Path, body: str, **constants: np.ndarray) -> tuple[tuple[str, ...], str]:
    """The remarks and the advice of the verdict on a model with these initializers."""
    proto = onnx.load(saved(folder, body))
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(v, name) for name, v in constants.items())
    onnx.save(proto, folder / "m.onnx")
    original = Original(load_model(folder / "m.onnx"))
    verdict = judge(Baseline(original, [InputSet("", {"x": X})]), own_graph(original))
    return verdict.references, verdict.advice


@pytest.mark.parametrize(
    ("operator", "number", "words"),
    [
        ("Div", 1e8, "divides by infinity"),
        ("Div", 1e-9, "divides by 0"),
        ("Mul", 1e-9, "multiplies by 0"),
        ("Sub", 1e8, "subtracts infinity"),
    ],
)
def test_a_constant_that_float16_does_not_hold_is_named(
    tmp_path: Path, operator: str, number: float, words: str
) -> None:
    with np.errstate(over="ignore"):
        lost = np.float16(number)
    body = f"[part] l = {operator} (x, c) y = Sigmoid (l)"
    (remark,), advice = judged_with(tmp_path, body, c=np.array(lost))
    assert remark.startswith(f"no input changes 'y': part ({operator}) {words} in float16")
    assert "export the model in float32" in advice
    assert judged_with(tmp_path, body, c=np.array(2, np.float16))[0] == ()
    assert (
        judged_with(tmp_path, f"l = {operator} (x, c) y = Where (m, l, x)", c=np.array(lost), m=X > 200)[0]
        == ()
    )


def test_in_float32_where_a_precision_is_asked_for(tmp_path: Path) -> None:
    found = Original(square_and_root(tmp_path), wide=True).run({"x": X})["y"]
    assert found.dtype == np.float16 and np.array_equal(found, X)


def test_an_engine_is_held_to_what_the_user_expects(tmp_path: Path) -> None:
    original, sets = Original(square_and_root(tmp_path)), [InputSet("", {"x": X})]
    expected = Baseline(original, sets, expected=[{"y": X}])
    assert judge_outputs(expected, Arithmetic("tf32"), [{"y": X}]).passed
    off = judge_outputs(expected, Arithmetic("tf32"), [{"y": X * np.float16(1.1)}])
    assert off.status == "disagree"
    assert judge(expected, own_graph(original)).status == "not comparable"  # nothing is known of the engine


def test_the_original_in_float32_is_not_run_for_its_types(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the user expects is all that a graph in float32 is compared with."""
    x = X.astype(np.float32)
    edges = "float[1,64] x) => (float[1,64] y"
    model = load_model(saved(tmp_path, "s = Mul (x, x) y = Sqrt (s)", edges))
    baseline = Baseline(Original(model), [InputSet("", {"x": x})], expected=[{"y": x}])
    monkeypatch.setattr(Original, "run", lambda *_: pytest.fail("the original was run"))
    assert judge(baseline, rewritten_graph(model)).passed


def test_an_overflow_that_no_output_follows_is_not_told(tmp_path: Path) -> None:
    body = "s = Mul (x, x) l = Shape (s) y = Neg (x)"
    model = load_model(saved(tmp_path, body, "float16[1,64] x) => (float16[1,64] y, int64[2] l"))
    baseline = Baseline(Original(model), [InputSet("", {"x": X})])
    assert baseline.unheld == {} and judge(baseline, own_graph(baseline.original)).passed


def test_a_class_follows_small_changes_by_right(tmp_path: Path) -> None:
    """The index of the largest of equal numbers is another one in float32; without an overflow nothing is wrong."""
    body = "s = Sqrt (x) y = ArgMax <axis = 1> (s)"
    model = load_model(saved(tmp_path, body, "float16[1,64] x) => (int64[1,1] y"))
    near = (np.full((1, 64), 100) + np.arange(64) / 16).astype(np.float16)
    baseline = Baseline(Original(model), [InputSet("", {"x": near})])
    wide = Baseline(Original(model, wide=True), baseline.sets)
    assert not np.array_equal(baseline.plain[0]["y"], wide.plain[0]["y"]) and baseline.unheld == {}


@pytest.mark.parametrize(
    ("edges", "flags"),
    [
        ("float16[1,64] x) => (float16[1,64] y", ("--precision", "fp32")),
        ("float16[1,64] x) => (float16[1,64] y", ("--precision", "fp16")),
        ("float[1,64] x) => (float[1,64] y", ("--precision", "fp16")),
    ],
)
def test_what_is_told_helps(
    edges: str,
    flags: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    body = "s = Mul (x, x) y = Sqrt (s)"
    saved(tmp_path, body)
    np.savez("x.npz", x=X)

    def converted(*more: str) -> Ran:
        return trtsmith(capsys, "convert", "m.onnx", "-o", "e.plan", "--inputs", "x.npz", "--force", *more)

    as_it_is = converted()
    assert as_it_is.code == 4
    assert "overflow at s (Mul): 6.4e+05, float16 holds 65504 (" in as_it_is.out
    assert (
        "\nnext: export the model in float32, and convert it with --precision fp16, which keeps such nodes in float32; "
        "if you cannot, give --precision fp16 or fp32 with this file\n"
    ) in as_it_is.out
    saved(tmp_path, body, edges)
    np.savez("x.npz", x=X.astype(np.float32 if edges.startswith("float[") else np.float16))
    wide = converted(*flags)
    assert wide.code == 0 and "verdict: agree" in wide.out


def test_an_output_that_its_type_does_not_hold_is_exported_in_float32(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """--precision leaves the types of outputs, and does not help."""
    monkeypatch.chdir(tmp_path)
    command = ("convert", "m.onnx", "-o", "e.plan", "--inputs", "x.npz", "--force")
    saved(tmp_path, "y = Mul (x, x)")
    np.savez("x.npz", x=X)
    told = "next: export the model in float32, and convert it with --precision fp16, which keeps such nodes in float32\n"
    assert told in trtsmith(capsys, *command).out
    saved(tmp_path, "y = Mul (x, x)", "float[1,64] x) => (float[1,64] y")
    np.savez("x.npz", x=X.astype(np.float32))
    assert trtsmith(capsys, *command, "--precision", "fp16").code == 0


def test_locate_compares_with_float32_too_where_the_precision_replaces_the_models_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    saved(tmp_path, "s = Mul (x, x) y = Sqrt (s)")
    np.savez("x.npz", x=X)
    ran = trtsmith(
        capsys, "locate", "m.onnx", "--inputs", "x.npz", "--precision", "fp16", "--on", "emulation"
    )
    assert ran.code == 0 and "the outputs agree with the original's" in ran.out, ran.out


def test_what_a_module_in_float16_gave_is_given_in_float32(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In float32 the graph would be compared with what overflowed."""
    monkeypatch.chdir(tmp_path)
    model = load_model(saved(tmp_path, "s = Mul (x, x) y = Sqrt (s)"))
    np.savez("x.npz", x=X)
    np.savez("y.npz", **Original(model).run({"x": X}))
    command = ("convert", "m.onnx", "-o", "e.plan", "--inputs", "x.npz", "--expected", "y.npz", "--force")
    told = "next: export the model in float32, and convert it with --precision fp16, which keeps such nodes in float32\n"
    assert told in trtsmith(capsys, *command).out
    assert trtsmith(capsys, *command, "--precision", "fp32").code != 0


def test_infinite_weights_are_the_cause_and_no_inputs_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    weights = {"w": np.array([[np.inf, 1]], np.float16), "v": np.ones((64, 1), np.float16)}
    text = "(float16[1,64] x) => (float16[1,2] y) { a = MatMul (x, v) b = Mul (a, w) s = ReduceSum (b) y = Add (s, w) }"
    parsed(tmp_path / "m.onnx", text, weights)
    ran = trtsmith(capsys, "convert", "m.onnx", "-o", "e.plan")
    assert "next: export the model in float32, and convert it with --precision fp16\n" in ran.out
    assert "\ninitializer 'w' has 1 infinite value: its type does not hold the weights" in ran.out
    assert " -         -    -     -    -" in ran.out  # no figures of numbers that are not finite
