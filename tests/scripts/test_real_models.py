"""The script on a wheel made here: nothing is downloaded."""

import importlib.util
import json
import zipfile
from pathlib import Path

import onnx
import pytest

from docpages.evidence import render_real_models
from real_models import RealModel, convert_forms, extract, main
from tests.converter.rewrite.rules.transformer_models import encoder

SHAPES = tuple(f"{name}=1x2:2x5:4x12" for name in ("ids", "kinds", "mask"))
MODEL = RealModel("some-models", "1.2", "some/encoder.onnx", "an encoder", SHAPES)


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    folder = tmp_path / "wheels"
    folder.mkdir()
    onnx.save(encoder(layers=1), tmp_path / "encoder.onnx")
    with zipfile.ZipFile(folder / "some_models-1.2-py3-none-any.whl", "w") as archive:
        archive.write(tmp_path / "encoder.onnx", MODEL.file)
    return folder


@pytest.mark.skipif(not importlib.util.find_spec("tensorrt_rtx"), reason="needs TensorRT-RTX")
def test_every_form_has_a_line(wheels: Path, tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    main(["--wheels", str(wheels), "--json", str(record)], [MODEL])
    found = json.loads(record.read_text())
    forms = {result["form"]: result for result in found["results"]}
    assert list(forms) == ["as it is", "saved by onnxruntime", "quantized by onnxruntime"]
    for form in ("as it is", "saved by onnxruntime"):
        assert forms[form]["outcome"] == "agrees"
        assert forms[form]["engine_bytes"] > 0 and forms[form]["relative"] < 1e-5
    assert forms["saved by onnxruntime"]["routes"]["rewritten"] > 0
    assert forms["quantized by onnxruntime"]["outcome"]
    page = render_real_models(found)
    assert page.count("`encoder`, an encoder, of some-models 1.2") == 3


def test_a_model_that_is_no_model_is_a_line_too(wheels: Path, tmp_path: Path) -> None:
    wrong = RealModel("some-models", "1.2", "some/broken.onnx", "not supported")
    proto = encoder(layers=1)
    proto.graph.node[0].op_type = "NobodyHasThis"
    onnx.save(proto, tmp_path / "broken.onnx")
    with zipfile.ZipFile(wheels / "some_models-1.2-py3-none-any.whl", "a") as archive:
        archive.write(tmp_path / "broken.onnx", wrong.file)
    outcomes = [result.outcome for result in convert_forms(wrong, wheels, tmp_path)]
    assert outcomes[0] == "no importer for operator NobodyHasThis"
    assert all(outcome.startswith("onnxruntime cannot make it: ") for outcome in outcomes[1:])


def test_a_wheel_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"no wheel of some-models 1\.2"):
        extract(MODEL, tmp_path, tmp_path)
