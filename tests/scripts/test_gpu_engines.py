"""The engine steps of scripts/gpu_check.py, with onnxruntime in place of TensorRT: none needs a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from gpucheck import engines, node_tests, rule_examples
from gpucheck.engines import DOES_NOT_RUN, NOT_BUILT, EngineError
from gpucheck.record import Notes, read_notes
from harness.jobs import RETIRE
from onnxcoverage.cases import CoverageCase
from tests.rule_examples import examples_of
from tests.scripts.engine_doubles import Change, by_onnxruntime, in_workers, refuses
from trtsmith.converter.base.errors import TrtsmithError
from trtsmith.converter.engine.builder.gpu import Gpu
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.rules import RULES

Arrays = Mapping[str, np.ndarray]


def one_node(
    op: str, inputs: Mapping[str, Any], outputs: Mapping[str, Any], **fields: Any
) -> onnx.ModelProto:
    def value(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)

    nodes = [helper.make_node(op, list(inputs), list(outputs), **fields)]
    ends = [[value(*item) for item in arrays.items()] for arrays in (inputs, outputs)]
    return helper.make_model(
        helper.make_graph(nodes, "g", *ends), opset_imports=[helper.make_opsetid("", 18)], ir_version=10
    )


def saved(proto: onnx.ModelProto, folder: Path) -> Model:
    onnx.save(proto, folder / "saved.onnx")
    return load_model(folder / "saved.onnx")


def product_case(random: bool = False) -> CoverageCase:
    rng = np.random.default_rng(0)
    inputs = {"a": rng.standard_normal((9, 64), np.float32), "b": rng.standard_normal((64, 9), np.float32)}
    outputs = {"y": inputs["a"] @ inputs["b"]}
    model = one_node("MatMul", inputs, outputs)
    return CoverageCase("product", "MatMul", "tensors", model, inputs, outputs, 1e-3, 1e-7, random)


def judged(
    case: CoverageCase, folder: Path, opener: engines.Opener, step: str = "as it is"
) -> dict[str, Any]:
    return node_tests.judge_form(case, node_tests.FORMS[step](case, folder), opener)


def test_verdicts_of_node_tests(tmp_path: Path) -> None:
    case = product_case()
    norm = float(np.linalg.norm(case.outputs["y"]))
    noise = np.random.default_rng(1).standard_normal((9, 9)).astype(np.float32)
    noise *= norm / np.linalg.norm(noise)

    def off(relative: float) -> Change:
        return lambda outputs: {"y": outputs["y"] + np.float32(relative) * noise}

    assert judged(case, tmp_path, by_onnxruntime())["verdict"] == "exact"
    near = judged(case, tmp_path, by_onnxruntime(off(3e-4)))
    assert near["verdict"] == "tf32" and near["error"] < 2e-3
    assert near["reason"].startswith("output 'y': differs")
    assert judged(case, tmp_path, by_onnxruntime(off(5e-3)))["verdict"] == "wrong"
    assert judged(product_case(random=True), tmp_path, by_onnxruntime(off(1)))["verdict"] == "shapes"
    half = judged(case, tmp_path, by_onnxruntime(lambda out: {"y": out["y"].astype(np.float16)}))
    assert (half["verdict"], half["reason"]) == ("wrong", "output 'y': float16 instead of float32")
    none = judged(case, tmp_path, by_onnxruntime(lambda out: {}))
    assert (none["verdict"], none["reason"]) == ("wrong", "output 'y': no value")
    nan = judged(case, tmp_path, by_onnxruntime(lambda out: {"y": out["y"] * np.float32(np.nan)}))
    assert nan["verdict"] == "wrong"
    assert judged(case, tmp_path, refuses(NOT_BUILT))[RETIRE] is False
    assert judged(case, tmp_path, refuses(DOES_NOT_RUN))[RETIRE] is True


def test_elementwise_operators_have_no_tf32_to_excuse_them(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((9, 9), np.float32)
    case = CoverageCase(
        "s", "Sin", "tensors", one_node("Sin", {"x": x}, {"y": x}), {"x": x}, {"y": np.sin(x)}, 1e-5, 0, False
    )
    assert judged(case, tmp_path, by_onnxruntime())["verdict"] == "exact"
    slightly = by_onnxruntime(lambda outputs: {"y": outputs["y"] * np.float32(1.0001)})
    assert judged(case, tmp_path, slightly)["verdict"] == "wrong"


def test_a_case_is_rewritten_frozen_and_given_plugins(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    data, axes = rng.standard_normal((3, 4), np.float32), np.array([1], np.int64)
    total = data.sum(1, keepdims=True)
    reduced = CoverageCase(
        *("sum", "ReduceSum", "tensors", one_node("ReduceSum", {"x": data, "axes": axes}, {"y": total})),
        *({"x": data, "axes": axes}, {"y": total}, 1e-5, 1e-6, False),
    )
    assert judged(reduced, tmp_path, by_onnxruntime(), "frozen")["verdict"] == "exact"
    frozen = node_tests.FORMS["frozen"](reduced, tmp_path)
    assert frozen is not None and [v.name for v in frozen.model.proto.graph.input] == ["x"]
    assert node_tests.FORMS["rewritten"](reduced, tmp_path) is None

    x, weight = rng.standard_normal((1, 1, 5, 5), np.float32), rng.standard_normal((1, 1, 3, 3), np.float32)
    inputs = {"x": x, "w": weight, "offset": np.zeros((1, 18, 3, 3), np.float32)}
    patches = np.lib.stride_tricks.sliding_window_view(x[0, 0], (3, 3))
    outputs = {"y": np.einsum("ijkl,kl->ij", patches, weight[0, 0])[None, None]}
    deformed = one_node("DeformConv", inputs, outputs, kernel_shape=[3, 3])
    deformed.opset_import[0].version = 19
    case = CoverageCase("deform", "DeformConv", "tensors", deformed, inputs, outputs, 1e-4, 1e-5, False)
    found = judged(case, tmp_path, by_onnxruntime(), "rewritten")
    assert (found["verdict"], found["form"]) == ("exact", "plugins")


def test_the_second_form_decides_and_the_first_is_remembered() -> None:
    first = {"verdict": NOT_BUILT, "form": "as it is", "reason": "no importer"}
    second = {"verdict": "exact", "form": "rewritten", "reason": ""}
    assert node_tests.combined(None, second) == second
    assert node_tests.combined(first, second) == {**second, "before": "not built: no importer"}
    assert node_tests.combined(first, {"verdict": node_tests.UNCHANGED, "reason": "-"}) == first


def step_on(cases: list[CoverageCase], double: str, folder: Path, patch: pytest.MonkeyPatch) -> Any:
    patch.setattr(node_tests, "load_cases", lambda: cases)
    in_workers(node_tests, double, patch)
    inside = folder / double
    inside.mkdir(exist_ok=True)
    (inside / "notes.jsonl").unlink(missing_ok=True)
    node_tests.check(inside, 100, Notes(inside / "notes.jsonl"))
    return read_notes(inside / "notes.jsonl", "onnx-tests", None)


def test_the_step_fails_for_too_few_matches_and_for_wrong_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tensorrt_rtx")
    monkeypatch.setattr(node_tests.os, "cpu_count", lambda: 1)
    few = step_on([product_case()], "exact", tmp_path, monkeypatch)
    assert few.failures == ["1 cases match; 500 are wanted"]
    assert few.rows == [
        {"case": "product", "op": "MatMul", "form": "as it is", "verdict": "exact", "reason": ""}
    ]
    monkeypatch.setattr(node_tests, "LEAST_MATCHED", 1)
    assert step_on([product_case()], "exact", tmp_path, monkeypatch).verdict == "pass"
    monkeypatch.setattr(node_tests, "LEAST_MATCHED", 0)
    wrong = step_on([product_case()], "wrong", tmp_path, monkeypatch)
    assert wrong.failures == ["product: wrong: output 'y': differs by 1"]
    crash = step_on([product_case()], "crash", tmp_path, monkeypatch)
    assert crash.failures == ["product: crashes: SIGKILL"]


def test_without_tensorrt_or_gpu_a_step_fails_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "NEEDED", ())
    monkeypatch.setattr(engines, "find_gpu", lambda: Gpu("G", (9, 0)))
    assert not engines.missing(Notes(tmp_path / "there.jsonl"))
    monkeypatch.setattr(engines, "find_gpu", lambda: None)
    assert engines.missing(Notes(tmp_path / "gpu.jsonl"))
    assert read_notes(tmp_path / "gpu.jsonl", "s", None).failures == [
        "no NVIDIA GPU that the driver knows of"
    ]
    monkeypatch.setattr(engines, "NEEDED", ("no_such_runtime", "no_such.package"))
    assert engines.missing(Notes(tmp_path / "rtx.jsonl"))
    result = read_notes(tmp_path / "rtx.jsonl", "s", None)
    assert (
        result.verdict == "fail" and "not installed: no_such_runtime, no_such.package" in result.failures[0]
    )


def test_an_engine_error_keeps_its_first_words() -> None:
    error = EngineError(NOT_BUILT, "a\n  b " + "c" * 1000)
    assert str(error).startswith("a b ccc") and len(str(error)) == engines.MOST_WORDS
    assert not isinstance(error, TrtsmithError)


def test_the_examples_of_rules_are_judged_by_what_the_original_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tensorrt_rtx")
    rules = tuple(rule for rule in RULES if rule.name in ("byte-casts", "log-sums", "unique-plugin"))
    monkeypatch.setattr(rule_examples, "RULES", rules)
    monkeypatch.setattr(rule_examples.os, "cpu_count", lambda: 2)
    in_workers(rule_examples, "exact", monkeypatch)

    def found(name: str) -> Any:
        folder = tmp_path / name
        folder.mkdir()
        rule_examples.check(folder, 100, Notes(folder / "notes.jsonl"))
        return read_notes(folder / "notes.jsonl", "rules", None)

    right = found("right")
    count = sum(len(examples_of(rule)) for rule in rules)
    assert (right.verdict, len(right.rows)) == ("pass", count)
    assert {row["rule"] for row in right.rows} == {rule.name for rule in rules}
    assert right.summary.startswith(f"{count} of {count} examples match")

    in_workers(rule_examples, "refuses", monkeypatch)
    none = found("none")
    assert none.verdict == "fail" and len(none.failures) == count
    assert "not built: because" in none.failures[0]
