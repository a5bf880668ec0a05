"""Cases for a plugin library from a model's nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.converter.models import relu, written
from tests.converter.plugin.fixtures import host_on_fake_cuda, library, on_fake_cuda
from trtsmith.converter.base.errors import ConversionError, UsageError
from trtsmith.converter.base.options.shapes import parse_shapes
from trtsmith.converter.cli.main import main
from trtsmith.converter.convert.plugin_cases import cases_from_model
from trtsmith.converter.plugin.host.plugin_values import TensorDesc
from trtsmith.converter.plugin.test import test_library as check_library
from trtsmith.converter.verify.references import references_of


def repeat(x: np.ndarray, *, repeats: int, weights: list[float]) -> np.ndarray:
    return np.concatenate([x] * repeats)


REPEAT = "fixture.Repeat0 <repeats = {}, weights = [1.0, 2.0]>"


def chain(folder: Path, output: str = "?, 4", first: str = REPEAT.format(3)) -> Path:
    """Two nodes of the plugin; what is between them has a shape that only the plugin knows."""
    text = f"""(float[n, 4] x) => (float[{output}] y) {{
        a = Relu (x) [one] b = {first} (a) c = Neg (b) [two] y = {REPEAT.format(2)} (c) }}"""
    return written(folder / "m.onnx", text)


def test_fields_types_and_shapes_come_from_the_model(tmp_path: Path) -> None:
    cases = cases_from_model(chain(tmp_path), library("good_v3"), parse_shapes(["x=2x4"]))
    one, two = cases.contract
    fields = {"repeats": 3, "weights": (1.0, 2.0)}
    assert (one.plugin, one.name, one.fields) == ("Repeat0", "node one", fields)
    assert (one.inputs, one.outputs) == ((TensorDesc("float32", (2, 4)),), (TensorDesc("float32", (6, 4)),))
    assert (two.inputs, two.outputs) == ((TensorDesc("float32", (6, 4)),), (TensorDesc("float32", (12, 4)),))
    assert cases.kernels == () and cases.notes == ()
    report = check_library(library("good_v3"), gpu=False, definitions=cases.contract)
    held = {r.case for r in report.results if r.check == "output shapes"}
    assert report.ok and held == {"node one", "node two"}


def test_a_model_that_imports_no_domain_of_its_custom_nodes(tmp_path: Path) -> None:
    """Some exporters leave it out, and onnx then infers nothing at all."""
    proto = onnx.load(chain(tmp_path))
    kept = [entry for entry in proto.opset_import if entry.domain != "fixture"]
    del proto.opset_import[:]
    proto.opset_import.extend(kept)
    onnx.save(proto, tmp_path / "m.onnx")
    cases = cases_from_model(tmp_path / "m.onnx", library("good_v3"), parse_shapes(["x=2x4"]))
    assert len(cases.contract) == 2


def test_what_the_model_declares_is_what_the_plugin_is_held_to(tmp_path: Path) -> None:
    cases = cases_from_model(chain(tmp_path, output="11, 4"), library("good_v3"), parse_shapes(["x=2x4"]))
    report = check_library(library("good_v3"), gpu=False, definitions=cases.contract)
    failed = [result for result in report.failures if result.check == "output shapes"]
    assert [result.case for result in failed] == ["node two"]
    assert failed[0].problem is not None and "12x4" in failed[0].problem.what


def test_kernels_against_a_function_of_the_user(tmp_path: Path) -> None:
    path = chain(tmp_path)
    for function, right in ((repeat, True), (lambda x, **fields: repeat(x + 1, **fields), False)):
        given = references_of({"Repeat0": function})
        cases = cases_from_model(path, on_fake_cuda("good_v3"), parse_shapes(["x=2x4"]), given)
        one, two = cases.gpu_cases("Repeat0")
        assert one.inputs[0].shape == (2, 4) and (one.inputs[0] >= 0).all()
        assert two.inputs[0].shape == (6, 4) and two.expected[0].shape == (12, 4)
        asked: dict[str, Any] = {"definitions": cases.contract, "gpu_cases": cases.gpu_cases}
        report = check_library(on_fake_cuda("good_v3"), host=host_on_fake_cuda(), gpu=True, **asked)
        wrong = {result.case for result in report.failures if result.check == "kernel against its reference"}
        assert (wrong == set()) == right


def test_models_that_give_no_case(tmp_path: Path) -> None:
    path = chain(tmp_path)
    with pytest.raises(UsageError, match="x"):
        cases_from_model(path, library("good_v3"), {})  # the size of n is missing
    with pytest.raises(ConversionError, match="unknown attribute 'repeat'"):
        cases_from_model(
            chain(tmp_path, first="fixture.Repeat0 <repeat = 1>"), library("good_v3"), parse_shapes(["x=2x4"])
        )
    relu(tmp_path / "none.onnx")
    with pytest.raises(UsageError, match="none of the library's plugins is a node of"):
        cases_from_model(tmp_path / "none.onnx", library("good_v3"), {})


def test_a_plugin_that_is_not_created_is_told_and_fails_where_the_model_declares_its_outputs(
    tmp_path: Path,
) -> None:
    one = chain(tmp_path, first=REPEAT.format(0))
    cases = cases_from_model(one, library("good_v3"), parse_shapes(["x=2x4"]))
    assert cases.contract == () and "createPlugin returned null" in cases.notes[0]
    assert "input 'c' is not known" in cases.notes[1]
    text = f"(float[2, 4] x) => (float[6, 4] y) {{ [rep] y = {REPEAT.format(0)} (x) }}"
    written(tmp_path / "d.onnx", text)
    cases = cases_from_model(tmp_path / "d.onnx", library("good_v3"), {})
    report = check_library(library("good_v3"), gpu=False, definitions=cases.contract)
    assert {result.case for result in report.failures if result.check == "creation"} == {"node rep"}


def test_an_input_of_unknown_shape_is_told(tmp_path: Path) -> None:
    text = f"(float[2, 4] x) => (float[] y) {{ a = them.Theirs (x) [rep] y = {REPEAT.format(3)} (a) }}"
    written(tmp_path / "m.onnx", text)
    cases = cases_from_model(tmp_path / "m.onnx", library("good_v3"), {})
    assert cases.contract == () and "input 'a' is not known" in cases.notes[0]


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plugin", "test", str(library("good_v3")), "--no-gpu"]
    assert main([*words, "--model", str(chain(tmp_path)), "--shapes", "x=2x4"]) == 0
    shown = capsys.readouterr().out
    assert "no case is known" not in shown and "0 fail" in shown
    assert main([*words, "--shapes", "x=2x4"]) == 2
    assert "--model ONNX" in capsys.readouterr().err
