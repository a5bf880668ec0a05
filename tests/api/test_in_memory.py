"""Models as bytes and ModelProtos, inputs and outputs as arrays, engines as bytes: only named files are written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
import torch

import trtsmith
from tests.converter.models import inverse, written
from tests.converter.verify.fake_engine import FakeEngine
from trtsmith.converter.model.load import load_model
from trtsmith.converter.verify import candidates, verify_bundle

X = np.eye(4, dtype=np.float32)[None].repeat(2, 0) * np.float32(2)
SHAPES = {"x": [(1, 4, 4), (2, 4, 4), (5, 4, 4)]}


@pytest.fixture
def proto(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> onnx.ModelProto:
    monkeypatch.chdir(tmp_path)
    inverse(Path("m.onnx"), ("n", 4, 4))
    return onnx.load("m.onnx")


@pytest.mark.parametrize("form", ["proto", "bytes", "bytearray", "memoryview"])
def test_a_model_in_memory_is_converted_to_an_engine_in_memory(proto: onnx.ModelProto, form: str) -> None:
    data = proto.SerializeToString()
    forms = {"proto": proto, "bytes": data, "bytearray": bytearray(data), "memoryview": memoryview(data)}
    model = forms[form]
    os.remove("m.onnx")
    done = trtsmith.convert(model, inputs={"x": X}, shapes=SHAPES)
    assert done.bundle is None and isinstance(done.engine, bytes) and len(done.engine) == done.built.size
    assert [library.name for library in done.libraries] == ["libtrtsmith_plugins.so"]
    assert done.passed and done.verdict is not None and done.verdict.inputs == "given arrays"
    assert os.listdir() == []
    assert trtsmith.convert(model, shapes=SHAPES, embed_plugins=True, verify=None).libraries == ()


def test_check_rewrite_and_verify_take_the_same(
    proto: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert trtsmith.check(proto).convertible
    assert trtsmith.rewrite(proto.SerializeToString(), "out.onnx").plan.plugins
    assert onnx.load("out.onnx").graph.node[1].domain == "trtsmith"
    trtsmith.convert(proto, "e.plan", shapes=SHAPES, verify=None)
    fake = FakeEngine(Path("m.onnx"), {"x": tuple(SHAPES["x"])})
    monkeypatch.setattr(verify_bundle, "describe_engine", fake.describe)
    monkeypatch.setattr(candidates, "run_engine", fake.run)
    expected = {"y": -np.linalg.inv(X)}
    verdict = trtsmith.verify(proto, "e.plan", inputs={"x": X}, expected=expected)
    assert verdict.passed and verdict.inputs == "given arrays, outputs expected: given arrays"
    assert not verdict.warnings  # the fingerprint is that of the bytes
    expected["y"][1, 2, 2] += 1
    assert trtsmith.verify(proto, "e.plan", inputs={"x": X}, expected=expected).status == "disagree"


def test_expected_arrays_decide_the_verdict(proto: onnx.ModelProto) -> None:
    right = {"y": -np.linalg.inv(X)}
    options: dict[str, Any] = {"inputs": {"x": X}, "shapes": SHAPES}
    assert trtsmith.convert(proto, expected=right, **options).passed
    assert not trtsmith.convert(proto, expected={"y": right["y"] * 1.5}, **options).passed
    assert trtsmith.convert(proto, expected={"y": right["y"].astype(np.float64)}, **options).passed
    with pytest.raises(trtsmith.UsageError, match="outputs are given without their inputs"):
        trtsmith.convert(proto, expected=right, shapes=SHAPES)


def with_weights(folder: Path) -> onnx.ModelProto:
    """y = x + w, with w in weights.bin."""
    path = folder / "w.onnx"
    weights = {"w": np.arange(1024, dtype=np.float32)}
    model = onnx.load(written(path, "(float[1024] x) => (float[1024] y) { y = Add (x, w) }", weights))
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    return onnx.load(path, load_external_data=False)


def test_external_data_of_a_model_in_memory_needs_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    model = with_weights(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(trtsmith.InvalidModelError) as caught:
        trtsmith.check(model)
    (problem,) = caught.value.problems
    assert "'weights.bin'" in problem.what and "initializer 'w'" in problem.where
    assert "data_folder=" in problem.fix
    x = np.ones(1024, np.float32)
    done = trtsmith.convert(
        model, data_folder="data", inputs={"x": x}, expected={"y": x + np.arange(1024, dtype=np.float32)}
    )
    assert done.passed and done.built.size > 4096
    with pytest.raises(trtsmith.ConversionError, match="does not exist"):
        trtsmith.check(model, data_folder=tmp_path)


def test_the_bytes_of_a_model_have_the_fingerprint_of_its_file(proto: onnx.ModelProto) -> None:
    from trtsmith.converter.model.fingerprint import fingerprint
    from trtsmith.converter.model.model_bytes import ModelBytes

    data = Path("m.onnx").read_bytes()
    assert fingerprint(load_model(ModelBytes(data))) == fingerprint(load_model("m.onnx"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"inputs": [1, 2]}, "inputs is of the type list"),
        ({"inputs": {"x": object()}}, "inputs['x'] holds object, not numbers"),
        ({"inputs": {"x": [[1.0], [1.0, 2.0]]}}, "numpy cannot make an array of inputs['x']"),
        ({"inputs": {"x": X.astype(np.float64)}}, "input 'x' is float64[2, 4, 4]"),
        ({"inputs": {"z": X}}, "no array for input 'x'"),
        ({"inputs": {"x": X}, "expected": {"z": X}}, "no array for output 'y'"),
        ({"args": (X,)}, "args is given for a model that does not come from PyTorch"),
        (
            {"args": {"x": (2, 4, 4)}},
            'sizes as shapes={"x": [(1, 4), (2, 4), (8, 4)]}, and arrays as inputs={"x": array}',
        ),
        (
            {"dynamic_shapes": {"x": {0: "n"}}},
            'usual and largest sizes: shapes={"x": [(1, 4), (2, 4), (8, 4)]}',
        ),
        ({"output": "none/x.plan"}, 'where:    output="none/x.plan"'),
        ({"save_onnx": "o.onnx"}, "save_onnx is given"),
        ({"args": "a.plan", "output": "b.plan"}, "the output is named twice"),
        ({"precision": "int8", "calibration": {"x": X[:, :2]}}, "input 'x' is float32[2, 2, 4]"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_does_not_fit_is_refused_in_four_parts(
    proto: onnx.ModelProto, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(trtsmith.UsageError) as caught:
        trtsmith.convert(proto, **({"shapes": SHAPES} | options))
    assert words in str(caught.value)
    assert all((p.what, p.where, p.expected, p.fix) for p in caught.value.problems)
    assert os.listdir() == ["m.onnx"]


@pytest.mark.parametrize("data", [b"", b"no model", b"\x08\x07" + b"\xff" * 40])
def test_bytes_that_are_no_model(data: bytes) -> None:
    with pytest.raises(trtsmith.InvalidModelError) as caught:
        trtsmith.convert(data)
    assert caught.value.problems[0].where.startswith("<model>")


def test_tensors_of_pytorch_and_types_beyond_numpy_are_arrays(proto: onnx.ModelProto) -> None:
    tensor = torch.from_numpy(X).requires_grad_()
    assert trtsmith.convert(proto, inputs={"x": tensor}, shapes=SHAPES).passed
    with pytest.raises(trtsmith.UsageError, match=r"bfloat16\[2, 4, 4\]"):
        trtsmith.convert(proto, inputs={"x": X.astype(ml_dtypes.bfloat16)}, shapes=SHAPES)


def test_inputs_to_freeze_are_taken_from_arrays(tmp_path: Path) -> None:
    text = "(float[2, 3] x, int64[1] axes) => (float[A, B] y) { y = ReduceSum (x, axes) }"
    model = onnx.load(written(tmp_path / "m.onnx", text))
    given = {"x": np.ones((2, 3), np.float32), "axes": np.array([1])}
    assert not trtsmith.check(model).convertible
    assert trtsmith.check(model, inputs=given).frozen["axes"].tolist() == [1]
    assert trtsmith.convert(model, inputs=given, expected={"y": np.full((2, 1), 3, np.float32)}).passed
