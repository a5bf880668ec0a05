"""trtsmith bundle, on an engine of trtsmith convert."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from tests.converter.cli.commands.running import Cli, refused
from tests.converter.models import inverse, relu
from trtsmith.converter.engine.bundle.bundle import manifest_path

pytestmark = pytest.mark.skipif(not importlib.util.find_spec("tensorrt_rtx"), reason="needs TensorRT-RTX")


def as_tensorrt(engine: Path) -> None:
    """The manifest as it would be of TensorRT, which builds nothing without a GPU."""
    path = manifest_path(engine)
    document = json.loads(path.read_text())
    document["tensorrt"] = {"flavour": "tensorrt", "version": "10.16.1.11"}
    path.write_text(json.dumps(document))


def test_a_converted_engine_in_a_repository(tmp_path: Path, cli: Cli) -> None:
    engine, models = tmp_path / "relu.plan", tmp_path / "models"
    shapes = ("--shapes", "x=1x3:2x3:5x3")
    assert cli("convert", relu(tmp_path / "m.onnx", ("n", 3)), "-o", engine, *shapes).code == 0
    refused(cli("bundle", engine, "--triton", models), 2, "TensorRT-RTX")
    as_tensorrt(engine)
    ran = cli("bundle", engine, "--triton", models)
    assert ran.code == 0 and f"--model-repository={models}" in ran.out and "up to 5" in ran.err
    flags = ("--name", "other", "--no-batching", "--instances", 3)
    assert cli("bundle", engine, "--triton", models, *flags).code == 0
    text = (models / "other" / "config.pbtxt").read_text()
    assert 'name: "other"' in text and "max_batch_size: 0" in text and "count: 3" in text
    flags = ("--name", "patient", "--batching", "--queue-delay-us", 250)
    assert cli("bundle", engine, "--triton", models, *flags).code == 0
    assert "max_queue_delay_microseconds: 250" in (models / "patient" / "config.pbtxt").read_text()
    manifest = json.loads(manifest_path(engine).read_text())
    manifest["tensorrt"]["version"] = "10.16\nerror: not ours\x1b[2J"
    manifest_path(engine).write_text(json.dumps(manifest))
    ran = cli("bundle", engine, "--triton", models, "--model-version", 2)
    assert ran.code == 0 and "10.16\\nerror: not ours\\x1b[2J" in ran.err
    text = (models / "relu" / "config.pbtxt").read_text()
    assert "max_batch_size: 5" in text and "preferred_batch_size: 2" in text


def test_an_engine_with_plugins_must_hold_them(tmp_path: Path, cli: Cli) -> None:
    model, engine = inverse(tmp_path / "m.onnx"), tmp_path / "m.plan"
    for flags, code in (((), 2), (("--embed-plugins",), 0)):
        assert cli("convert", model, "-o", engine, "--no-verify", *flags).code == 0
        as_tensorrt(engine)
        ran = cli("bundle", engine, "--triton", tmp_path / "models", "--name", "inverse")
        if code:
            refused(ran, code, "--embed-plugins", "MatrixInverse")
        else:
            assert ran.code == 0 and "version-compatible=true" in ran.out
