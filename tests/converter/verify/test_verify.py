"""Verdicts: what passes, and everything that must not."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper as oh

from converter.arrays import load_arrays
from converter.errors import UsageError
from converter.modelfile.load import load_model
from converter.rewrite import rewrite
from converter.shapes import InputSpec, ShapeRange
from converter.verify import (
    TOLERANCE,
    compare,
    generate_inputs,
    judge,
    load_expected,
    load_inputs,
    parse_tolerances,
    verify_graphs,
)
from tests.converter.models import inverse, load, value

A = np.linspace(1, 2, 12, dtype=np.float32).reshape(3, 4)


def one(expected: np.ndarray, actual: np.ndarray, **limits: list[str]) -> tuple[bool, str]:
    (result,) = compare({"y": expected}, {"y": actual}, parse_tolerances(**limits) if limits else None)
    return result.agrees, result.reason


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_the_tolerance_of_a_type_holds_on_both_sides(dtype: str) -> None:
    kind = np.dtype(dtype) if dtype != "bfloat16" else np.dtype(ml_dtypes.bfloat16)
    expected = np.full(1000, 1.0, kind)
    for factor, agrees in ((0.4, True), (3.0, False)):
        step = np.finfo(np.float64).eps if dtype == "float64" else float(ml_dtypes.finfo(kind).eps)
        change = max(TOLERANCE[dtype] * factor, step)
        assert one(expected, (expected.astype(np.float64) + change).astype(kind))[0] is agrees


def test_float8_and_strings_are_not_compared() -> None:
    for kind in (ml_dtypes.float8_e4m3fn, ml_dtypes.int4, np.complex64):
        assert one(np.ones(2, kind), np.ones(2, kind)) == (
            False,
            f"dtype {np.dtype(kind)} cannot be compared",
        )
    assert one(np.array(["a"], object), np.array(["a"], object)) == (False, "dtype object cannot be compared")


def test_shape_type_and_absence() -> None:
    assert one(A, A[:2]) == (False, "shape [2, 4], expected [3, 4]")
    assert one(A, A.astype(np.float64)) == (False, "dtype float64, expected float32")
    (result,) = compare({"y": A}, {})
    assert (result.agrees, result.reason) == (False, "missing")


def test_integers_and_booleans_must_be_equal() -> None:
    assert one(np.arange(3), np.arange(3)) == (True, "equal")
    (result,) = compare({"y": np.arange(4).reshape(2, 2)}, {"y": np.array([[0, 1], [9, 9]])})
    assert (result.agrees, result.reason, result.worst) == (False, "2 elements differ", (1, 0))
    assert one(np.array([True]), np.array([False])) == (False, "1 elements differ")


@pytest.mark.parametrize(
    ("there", "here", "agrees"),
    [
        (np.nan, np.nan, True), (np.nan, 1, False), (1, np.nan, False), (np.inf, np.inf, True),
        (np.inf, -np.inf, False), (np.inf, 3e38, False), (np.nan, np.inf, False),
    ],
)  # fmt: skip
def test_what_is_not_finite_must_be_the_same(there: float, here: float, agrees: bool) -> None:
    expected, actual = A.copy(), A.copy()
    expected[1, 2], actual[1, 2] = there, here
    for limits in ({}, {"rtol": ["1e30"], "atol": ["1e30"]}):
        assert one(expected, actual, **limits)[0] is agrees
    (result,) = compare({"y": expected}, {"y": actual})
    assert agrees or result.worst == (1, 2)


def test_a_result_against_zeros() -> None:
    zeros = np.zeros(3, np.float32)
    assert one(zeros, zeros)[0] is True
    (result,) = compare({"y": zeros}, {"y": zeros + 1})
    assert (result.agrees, result.relative) == (False, float("inf"))
    document = judge((result,), "generated", engine_run=False).to_json()
    assert json.loads(json.dumps(document, allow_nan=False))["comparisons"][0]["relative"] is None


def test_statistics() -> None:
    actual = A.copy()
    actual[2, 1] += 0.5
    (result,) = compare({"y": A}, {"y": actual})
    assert result.worst == (2, 1)
    assert result.max == pytest.approx(0.5) and result.mean == pytest.approx(0.5 / 12)
    assert result.relative == pytest.approx(0.5 / np.linalg.norm(A), rel=1e-5)
    assert not result.agrees and 0 < result.p99 < 0.5


def test_tolerances_by_element_and_by_output() -> None:
    limits = parse_tolerances(["0.1", "z:0"], ["a:b:0.5"])
    assert (limits.of("y"), limits.of("z"), limits.of("a:b")) == ((0.1, 0.0), (0.0, 0.0), (0.1, 0.5))
    assert parse_tolerances([], ["z:1"]).of("y") is None
    assert one(A, A * 1.05, rtol=["0.1"])[0] is True
    assert one(A, A * 1.2, rtol=["0.1"]) == (False, "12 elements beyond rtol 0.1, atol 0")
    assert one(A, A + 0.2, atol=["0.1"])[0] is False
    assert one(A, A + 0.2, atol=["y:0.3"])[0] is True


@pytest.mark.parametrize("text", ["", ":", "y:", "abc", "nan", "inf", "-1", "y:-1", "y:nan", "1e-3:y"])
def test_nonsense_tolerances(text: str) -> None:
    with pytest.raises(UsageError, match="is not a tolerance"):
        parse_tolerances([text])


def test_tolerances_of_outputs_that_are_not_there() -> None:
    with pytest.raises(UsageError) as error:
        parse_tolerances(["q:1", "1"], ["r:1", "y:1"]).check_outputs(["y"])
    assert [p.where for p in error.value.problems] == ["--rtol q:1", "--atol r:1"]


def test_only_agreement_passes() -> None:
    good = compare({"a": A, "e": A[:0]}, {"a": A, "e": A[:0]})
    assert (judge(good, "i", engine_run=True).status, judge(good, "i", engine_run=True).passed) == (
        "agree",
        True,
    )
    for comparisons, status in (
        ((), "not comparable"),
        (compare({"e": A[:0]}, {"e": A[:0]}), "not comparable"),
        ((*good, *compare({"z": A}, {})), "disagree"),
    ):
        verdict = judge(comparisons, "i", engine_run=False)
        assert (verdict.status, verdict.passed) == (status, False)


def test_generated_inputs() -> None:
    specs = [
        InputSpec("x", "float16", (None, 3), ("n", "")),
        InputSpec("b", "bool", (50,), ("",)),
        InputSpec("i", "uint8", (200,), ("",)),
        InputSpec("h", "bfloat16", (4,), ("",)),
        InputSpec("s", "float32", (), ()),
    ]
    profile = {"x": ShapeRange((1, 3), (5, 3), (9, 3))}
    made = generate_inputs(specs, profile)
    assert {n: (str(a.dtype), a.shape) for n, a in made.items()} == {
        "x": ("float16", (5, 3)), "b": ("bool", (50,)), "i": ("uint8", (200,)), "h": ("bfloat16", (4,)),
        "s": ("float32", ()),
    }  # fmt: skip
    assert set(made["i"]) == set(range(10)) and set(made["b"]) == {False, True}
    again = generate_inputs(specs, profile)
    assert all(np.array_equal(made[name], again[name]) for name in made)


@pytest.mark.parametrize("size", [10**12, 10**18 - 1])
def test_inputs_that_no_machine_holds(size: int) -> None:
    spec = InputSpec("x", "float32", (None, 3), ("n", ""))
    with pytest.raises(UsageError, match="input 'x' is too large to be generated") as error:
        generate_inputs([spec], {"x": ShapeRange((1, 3), (size, 3), (size, 3))})
    assert "--shapes" in error.value.problems[0].fix


def written(path: Path, kind: str) -> Path:
    np.savez(path, x=A)
    whole = path.read_bytes()
    if kind == "text":
        path.write_text("hello")
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "truncated":
        path.write_bytes(whole[: len(whole) // 2])
    elif kind == "flipped":
        path.write_bytes(bytes(b ^ 0xFF if i == 60 else b for i, b in enumerate(whole)))
    elif kind == "pickle":
        np.savez(path, x=np.array([{}], object))
    elif kind == "one array":
        with path.open("wb") as stream:
            np.save(stream, A)
    elif kind == "not arrays":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x", "hello")
    elif kind == "bad member":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x.npy", b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'shape': (10**15,)}")
    elif kind == "folder":
        path.unlink()
        path.mkdir()
    return path


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("text", "Python objects"), ("empty", "No data left"), ("truncated", "zip"), ("flipped", "CRC"),
        ("pickle", "it holds Python objects, not numbers"), ("one array", "it is a single array"),
        ("not arrays", "its member 'x' is not an array"), ("bad member", ""), ("folder", "directory"),
    ],
)  # fmt: skip
def test_files_that_are_no_arrays(kind: str, words: str, tmp_path: Path) -> None:
    path = written(tmp_path / "a.npz", kind)
    with pytest.raises(UsageError, match="the file cannot be read") as error:
        load_arrays(path, "--inputs")
    (problem,) = error.value.problems
    assert words in problem.what and problem.where == f"--inputs {path}"


def test_inputs_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, x=A, other=A)
    specs = [InputSpec("x", "float32", (None, 4), ("n", ""))]
    assert {n: a.shape for n, a in load_inputs(path, specs).items()} == {"x": (3, 4)}
    wrong = [
        InputSpec("z", "float32", (), ()),
        InputSpec("x", "float64", (None, 4), ("n", "")),
        InputSpec("other", "float32", (3, 4, 1), ("", "", "")),
    ]
    with pytest.raises(UsageError) as error:
        load_inputs(path, wrong)
    assert [(p.what, p.expected) for p in error.value.problems] == [
        ("no array for input 'z'", "an array 'z'"),
        ("input 'x' is float32[3, 4]", "float64[n, 4]"),
        ("input 'other' is float32[3, 4]", "float32[3, 4, 1]"),
    ]


def test_expected_outputs_are_all_of_them_and_no_others(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, b=A, a=A)
    assert list(load_expected(path, ["a", "b"])) == ["a", "b"]
    with pytest.raises(UsageError) as error:
        load_expected(path, ["a", "c"])
    assert [p.what for p in error.value.problems] == [
        "no array for output 'c'", "the model has no output 'b'",
    ]  # fmt: skip


def test_the_rewritten_graph_is_held_to_the_original(tmp_path: Path) -> None:
    original = load_model(inverse(tmp_path / "m.onnx"))
    rewritten = rewrite(original).model
    feeds = {"x": (np.eye(4) + np.ones((2, 4, 4)) / 9).astype(np.float32)}
    verdict = verify_graphs(original, rewritten, feeds, "mine")
    assert (verdict.status, verdict.engine_run, verdict.inputs) == ("agree", False, "mine")
    wrong = load_model(inverse(tmp_path / "wrong.onnx"))
    wrong.proto.graph.node[0].op_type = "Abs"
    verdict = verify_graphs(original, rewrite(wrong).model, feeds, "mine")
    assert verdict.status == "disagree" and verdict.comparisons[0].relative > 1
    expected = {"y": np.linalg.inv(-feeds["x"])}
    assert verify_graphs(original, rewritten, feeds, "mine", expected=expected).passed
    assert verify_graphs(original, rewritten, feeds, "m", expected={"y": -expected["y"]}).status == "disagree"


def test_graphs_that_do_not_run_are_not_comparable(tmp_path: Path) -> None:
    node = oh.make_node("Foo", ["x"], ["y"], domain="bar")
    unknown = load(tmp_path / "m.onnx", [node], [value("x", (1,))], [value("y", (1,))])
    verdict = verify_graphs(unknown, unknown, {"x": np.ones(1, np.float32)}, "i")
    assert verdict.status == "not comparable" and verdict.reason.startswith("the original: ")
    verdict = verify_graphs(unknown, unknown, {"x": np.ones(1, np.float32)}, "i", expected={"y": A})
    assert verdict.status == "not comparable" and verdict.reason.startswith("the rewritten graph: ")


def test_outputs_of_another_type_are_cast_back(tmp_path: Path) -> None:
    """uint64 travels as the int64 of its bits, float64 as float32; types that nobody told of disagree."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (uint64[3] x, double[3] u) => (uint64[3] y, double[3] v) { y = Mul (x, x) v = Neg (u) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    original = load_model(tmp_path / "m.onnx")
    result = rewrite(original)
    feeds = {"x": np.array([2**63 - 25, 5, 2**64 - 1], np.uint64), "u": np.array([0.1, 2.0, -3.0])}
    model = result.model
    assert verify_graphs(original, model, feeds, "mine", io_types=result.io_types).status == "agree"
    assert verify_graphs(original, model, feeds, "mine").status == "not comparable"
