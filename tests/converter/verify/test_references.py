"""Functions of the user that compute nodes, or the model, in onnxruntime's place."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trtsmith
from tests.converter.models import parsed, written
from tests.converter.plugin.fixtures import library
from trtsmith.converter.base.errors import ConversionError, UsageError
from trtsmith.converter.cli.reports.comparison import render_verdict
from trtsmith.converter.engine.builder.gpu import Gpu
from trtsmith.converter.engine.runtime.run_request import RunResult
from trtsmith.converter.engine.runtime.tensors import EngineInfo, TensorSpec
from trtsmith.converter.model.node_functions import calling
from trtsmith.converter.model.ort import run
from trtsmith.converter.verify import candidates, conversion_check, verify_bundle
from trtsmith.converter.verify.references import parse_references, references_of

X = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)


def scaled(x: np.ndarray, by: np.ndarray | None = None, *, factor: float, name: str = "") -> np.ndarray:
    assert name in ("", "text")
    return x.astype(np.float64) * factor * (1 if by is None else by)


CHAIN = """(float[2, 3] x) => (float[2, 3] y, float[2, 3] beside, float[2, 3] b) <float[3] w = {1, 2, 3}> {
    a = Relu (x) [first] b = them.Scale <factor = 2.0, name = "text", plugin_version = "1"> (a, w) beside = Neg (x)
    c = Add (b, beside) [second] d = them.Scale <factor = 3.0> (c, "") y = Add (d, a) }"""


def chain(folder: Path) -> Any:
    """Two custom nodes one behind the other, standard ones before, between, beside and behind, and an initializer."""
    return parsed(folder / "m.onnx", CHAIN)


def test_onnxruntime_runs_the_parts_between_the_functions(tmp_path: Path) -> None:
    model = chain(tmp_path)
    with pytest.raises(ConversionError, match="does not know them:Scale"):
        run(model, {"x": X})
    with calling(references_of({"them::Scale": scaled}).nodes):
        found = run(model, {"x": X})
    a = np.maximum(X, 0)
    b = a * 2 * np.array([1, 2, 3], np.float32)
    assert list(found) == ["y", "beside", "b"] and found["y"].dtype == np.float32
    np.testing.assert_allclose(found["b"], b, rtol=1e-6)
    np.testing.assert_allclose(found["beside"], -X)
    np.testing.assert_allclose(found["y"], (b - X) * 3 + a, rtol=1e-5)


def test_a_function_in_pytorch_gets_tensors(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")

    def tensors(x: torch.Tensor, by: Any = None, *, factor: float, name: str = "") -> torch.Tensor:
        assert isinstance(x, torch.Tensor)
        return x * factor * (1 if by is None else by)

    tensors.__annotations__["x"] = "torch.Tensor"
    schema = "(Tensor x, Tensor? by=None, *, float factor, str name='') -> Tensor"
    operator = torch.library.custom_op("them::scale", tensors, mutates_args=(), schema=schema)
    with calling(references_of({"Scale": scaled}).nodes):
        in_numpy = run(chain(tmp_path), {"x": X})
    for function in (tensors, operator):
        with calling(references_of({"Scale": function}).nodes):
            np.testing.assert_allclose(run(chain(tmp_path), {"x": X})["y"], in_numpy["y"], rtol=1e-6)


@pytest.mark.parametrize(
    ("function", "what", "where"),
    [
        (lambda *x, **k: 1 / 0, "failed: ZeroDivisionError: division by zero", "test_references.py, line "),
        (lambda x: x, "failed: TypeError", "--reference"),
        (lambda *x, **k: (x[0], x[0]), "returned 2 outputs", "node 'first' (Scale)"),
        (lambda *x, **k: [None], "returned no array: NoneType", "node 'first' (Scale)"),
    ],
)
def test_mistakes_in_a_function_are_messages(
    function: Callable[..., Any], what: str, where: str, tmp_path: Path
) -> None:
    with calling(references_of({"Scale": function}).nodes), pytest.raises(UsageError) as error:
        run(chain(tmp_path), {"x": X})
    (problem,) = error.value.problems
    assert what in problem.what and where in problem.where and problem.expected and problem.fix


def test_a_function_of_tensors_that_gets_arrays_is_told_how_to_get_tensors(tmp_path: Path) -> None:
    with (
        calling(references_of({"Scale": lambda x, by=None, **k: x.relu()}).nodes),
        pytest.raises(UsageError) as error,
    ):
        run(chain(tmp_path), {"x": X})
    (problem,) = error.value.problems
    assert "has no attribute 'relu'" in problem.what and "annotated torch.Tensor" in problem.fix


def test_a_node_in_a_branch_is_no_functions_business(tmp_path: Path) -> None:
    text = """(float[2, 3] x, bool c) => (float[2, 3] y) {
        [if] y = If (c) <then_branch = t () => (float[2, 3] t) { [s] t = them.Scale (x) },
            else_branch = e () => (float[2, 3] e) { e = Neg (x) }> }"""
    model, refusal = parsed(tmp_path / "m.onnx", text), "inside the If 'if'"
    with calling(references_of({"Scale": scaled}).nodes), pytest.raises(ConversionError, match=refusal):
        run(model, {"x": X, "c": np.array(True)})


@pytest.mark.parametrize(
    ("spec", "what", "fix"),
    [
        ("nothing", "names no function", "--reference my_model:compute"),
        ("a b=m:f", "'a b' is not an operator", "correct it"),
        ("Scale=no_module_here:f", "cannot be loaded: ModuleNotFoundError", "correct the name or"),
        ("no_file_here.py:f", "FileNotFoundError: there is no file no_file_here.py", "correct the name or"),
        ("broken_reference:f", "cannot be loaded: ZeroDivisionError", "correct the name or"),
        ("numpy:pi", "is not a function", "correct the name"),
        ("Scale=sub/some_reference.py:compte", "'compte' is not a function of", "some_reference.py:compute?"),
        ("sub/some_reference.py:x.y", "'x.y' is not a function of", "correct the name"),
        ("json.py:dumps", "'dumps' is not a function of", "correct the name"),
    ],
)
def test_names_of_no_function(
    spec: str, what: str, fix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_reference.py").write_text("x = 1\ny = x / 0\n")
    (tmp_path / "json.py").write_text("")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "some_reference.py").write_text("def compute(x):\n    return x\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as error:
        parse_references([spec])
    (problem,) = error.value.problems
    assert what in problem.what and fix in problem.fix
    assert ("broken_reference.py, line 2" in problem.where) == spec.startswith("broken")


def test_a_function_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside it are the modules that it imports."""
    monkeypatch.chdir(tmp_path)
    Path("sub").mkdir()
    Path("sub/beside_reference.py").write_text("FACTOR = 3\n")
    Path("sub/file_reference.py").write_text(
        "from beside_reference import FACTOR\n\ndef f(x):\n    return x * FACTOR\n"
    )
    whole = parse_references(["sub/file_reference.py:f"]).whole
    assert whole is not None and whole.function(2) == 6


@pytest.mark.parametrize(
    "change", ["sys.path = [*sys.path[1:]]", "sys.path.pop(0)", "sys.path.insert(0, 'x')"]
)
def test_a_module_may_change_the_path(change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "moving.py").write_text(f"import sys\n{change}\ndef f(x):\n    return x\n")
    try:
        assert references_of("moving:f").whole is not None
    finally:
        sys.modules.pop("moving", None)
    assert str(tmp_path) not in sys.path


def test_two_functions_for_one_operator() -> None:
    with pytest.raises(UsageError, match="two functions are given for Scale"):
        parse_references(["Scale=numpy:abs", "Scale=numpy:sin"])


def repeated(folder: Path) -> Path:
    text = """(float[2, 3] x) => (float[] y) { a = Abs (x)
        [rep] b = fixture.Repeat0 <repeats = 3, weights = [1.0, 2.0]> (a) y = Neg (b) }"""
    return written(folder / "m.onnx", text)


def repeat(x: np.ndarray, *, repeats: int, weights: list[float]) -> np.ndarray:
    assert weights == [1.0, 2.0]
    return np.concatenate([x] * repeats)


def converted(folder: Path, **options: Any) -> Any:
    asked: dict[str, Any] = {"flavour": "tensorrt_rtx", "plugins": library("good_v3"), "verify": "graph"}
    return trtsmith.convert(repeated(folder), folder / "m.plan", **asked, **options)


def test_a_conversion_with_a_function_for_the_plugin(tmp_path: Path) -> None:
    verdict = converted(tmp_path, reference={"Repeat0": repeat}).verdict
    assert verdict.passed and "the plugin of Repeat0 itself was not run" in verdict.reason
    assert "Repeat0 computed by repeat" in verdict.inputs


def test_a_reference_that_disagrees_with_the_graph(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=X)
    np.savez(tmp_path / "y.npz", y=np.concatenate([np.abs(X)] * 3))  # without the Neg
    given = {"inputs": tmp_path / "x.npz", "expected": tmp_path / "y.npz"}
    assert converted(tmp_path, reference={"Repeat0": repeat}, **given).verdict.status == "disagree"


def test_what_would_make_it_comparable_is_told_and_nothing_is_said_to_have_run(tmp_path: Path) -> None:
    verdict = converted(tmp_path).verdict
    text = render_verdict(verdict, Path("m.onnx"), Path("m.plan"))
    assert verdict.status == "not comparable" and "--reference Repeat0=MODULE:FUNCTION" in text
    assert "neither the graph from which the engine is built nor the engine was run" in text
    assert "was run in onnxruntime" not in text


def test_a_function_for_the_whole_model(tmp_path: Path) -> None:
    """It says what the outputs are; without a GPU and a function for the plugin, there is nothing to compare them with."""
    verdict = converted(tmp_path, reference=lambda x: -np.concatenate([np.abs(x)] * 3)).verdict
    assert verdict.status == "not comparable" and verdict.reason.startswith(
        "the rewritten graph: onnxruntime"
    )
    with pytest.raises(UsageError, match=r"returned 2 outputs"):
        converted(tmp_path, reference=lambda x: (x, x))
    with pytest.raises(UsageError, match="given twice"):
        converted(tmp_path, reference=lambda x: x, expected=tmp_path / "y.npz")
    with pytest.raises(UsageError, match="no node of the operator Repeat9"):
        converted(tmp_path, reference={"Repeat9": repeat})


def test_onnx_operators_can_be_computed_by_functions_too(tmp_path: Path) -> None:
    model = parsed(tmp_path / "m.onnx", "(float[2, 3] x) => (float[2, 3] y) { y = Neg (x) }")
    with calling(references_of({"Neg": lambda x: x + 1}).nodes):
        np.testing.assert_allclose(run(model, {"x": X})["y"], X + 1)
    np.testing.assert_allclose(run(model, {"x": X})["y"], -X)


INFO = EngineInfo(
    "tensorrt_rtx", "1.7.1.116", "NVIDIA A10", "8.6",
    (TensorSpec("x", "float32", (2, 3), True),), (TensorSpec("y", "float32", (6, 3), False),), 1, 0,
)  # fmt: skip


def outputs_of_an_engine(
    monkeypatch: pytest.MonkeyPatch, compute: Callable[[np.ndarray], np.ndarray]
) -> None:
    """A GPU of the target's kind, and an engine on it that gives these outputs."""

    def run_engine(request: Any, feeds: Any, progress: Any = None, *, repeats: int) -> RunResult:
        return RunResult(INFO, tuple({"y": compute(one["x"])} for one in feeds), 0.1)

    monkeypatch.setattr(conversion_check, "find_gpu", lambda: Gpu("NVIDIA A10", (8, 6)))
    monkeypatch.setattr(candidates, "run_engine", run_engine)


def whole(x: np.ndarray) -> np.ndarray:
    return -np.concatenate([np.abs(x)] * 3)


@pytest.mark.parametrize("reference", [whole, {"Repeat0": repeat}], ids=["whole", "operator"])
@pytest.mark.parametrize("right", [True, False])
def test_an_engine_with_a_plugin_of_others_is_compared_with_the_function(
    reference: Any, right: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """onnxruntime runs the graph only if a function computes the plugin's nodes; the engine's outputs are known anyway."""
    outputs_of_an_engine(monkeypatch, whole if right else lambda x: whole(x) * 1.1)
    options = {"plugins": library("good_v3"), "reference": reference, "target": "sm86"}
    done = trtsmith.convert(repeated(tmp_path), tmp_path / "m.plan", flavour="tensorrt_rtx", **options)
    verdict = done.verdict
    assert verdict is not None and verdict.engine_run and verdict.passed == right
    known = "the graphs agree" if isinstance(reference, dict) else "the graph is unknown"
    assert known in verdict.reason and "itself was not run" not in verdict.reason
    if not right:  # no search for a node runs without the function
        mine = "check your function of Repeat0, and the plugin"
        theirs = "give a function that computes it (--reference Repeat0=MODULE:FUNCTION)"
        assert verdict.advice.startswith(mine if isinstance(reference, dict) else theirs)


def test_verify_compares_with_a_function_for_every_set_of_inputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, plan = repeated(tmp_path), tmp_path / "m.plan"
    trtsmith.convert(path, plan, flavour="tensorrt_rtx", plugins=library("good_v3"), verify=None)
    monkeypatch.setattr(verify_bundle, "describe_engine", lambda request: INFO)
    outputs_of_an_engine(monkeypatch, whole)
    assert trtsmith.verify(path, plan, reference=whole).passed
    assert trtsmith.verify(path, plan, reference={"Repeat0": repeat}).passed
    assert trtsmith.verify(path, plan, reference=lambda x: whole(x) + 1).status == "disagree"
    verdict = trtsmith.verify(path, plan)
    assert verdict.status == "not comparable" and "--reference Repeat0=MODULE:FUNCTION" in verdict.advice
