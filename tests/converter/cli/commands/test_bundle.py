"""trtsmith bundle, on an engine of trtsmith convert."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

import trtsmith
from tests.converter.cli.commands.running import Cli, refused
from tests.converter.models import inverse, relu
from trtsmith.converter.engine.bundle.bundle import manifest_path

pytestmark = pytest.mark.skipif(not importlib.util.find_spec("tensorrt_rtx"), reason="needs TensorRT-RTX")


def as_tensorrt(engine: Path) -> dict[str, Any]:
    """The manifest as it would be of TensorRT, which builds nothing without a GPU."""
    path = manifest_path(engine)
    document: dict[str, Any] = json.loads(path.read_text())
    document["tensorrt"] = {"flavour": "tensorrt", "version": "10.16.1.11"}
    path.write_text(json.dumps(document))
    return document


def test_a_converted_engine_in_a_repository(here: Path, cli: Cli) -> None:
    relu(here / "m.onnx", ("n", 3))
    assert cli("convert m.onnx -o relu.plan --shapes x=1x3:2x3:5x3").code == 0
    bundle = "bundle relu.plan --for triton -o models"
    ran = cli(f"{bundle} --name in-python")
    assert ran.code == 0 and "TensorRT-RTX" in ran.err and Path("models/in-python/1/model.py").is_file()
    refused(cli(f"{bundle} --name in-python"), 2, "or --force to replace it")
    assert cli(f"{bundle} --name in-python --force").code == 0
    refused(cli("bundle nofile.plan"), 2, "There is no such file")
    refused(
        cli("bundle relu.plan"),
        2,
        "no model repository is named",
        "fix:      --for triton --output models/\n",
    )
    manifest = as_tensorrt(Path("relu.plan"))
    ran = cli(bundle)
    assert ran.code == 0 and "--model-repository=" in ran.out and "up to 5" in ran.err
    assert cli(f"{bundle} --name other --no-batching --instances 3").code == 0
    text = Path("models/other/config.pbtxt").read_text()
    assert 'name: "other"' in text and "max_batch_size: 0" in text and "count: 3" in text
    assert cli(f"{bundle} --name patient --batching --queue-delay-us 250").code == 0
    assert "max_queue_delay_microseconds: 250" in Path("models/patient/config.pbtxt").read_text()
    manifest["tensorrt"]["version"] = "10.16\nerror: not ours\x1b[2J"
    manifest_path(Path("relu.plan")).write_text(json.dumps(manifest))
    ran = cli(f"{bundle} --model-version 2")
    assert ran.code == 0 and "10.16\\nerror: not ours\\x1b[2J" in ran.err
    text = Path("models/relu/config.pbtxt").read_text()
    assert "max_batch_size: 5" in text and "preferred_batch_size: 2" in text


def test_a_server_gets_plugins_inside_the_engine_or_beside_it(here: Path, cli: Cli) -> None:
    inverse(here / "m.onnx")
    for name, flag in (("beside", ""), ("inside", "--embed-plugins")):
        assert cli(f"convert m.onnx -o m.plan --no-verify {flag}").code == 0
        as_tensorrt(Path("m.plan"))
        ran = cli(f"bundle m.plan -o models --name {name}")
        files = sorted(path for path in Path("models", name).rglob("*") if path.is_file())
        listed = ran.out.partition("files:\n")[2].partition("start:")[0].splitlines()
        assert sorted(listed) == [f"  {path}  {path.stat().st_size:,} bytes" for path in files]
        library = f"models/{name}/1/libtrtsmith_plugins.so"
        assert ran.code == 0 and Path(library).is_file() == (name == "beside")
        assert ("version-compatible=true" in ran.out) == (name == "inside")
        assert (f"start:  env TRTSMITH_PLUGINS={library} tritonserver " in ran.out) == (name == "beside")
        assert ("plugins=./libregister_plugins.so" in ran.out) == (name == "beside")
        assert ("convert with --embed-plugins" in ran.err) == (name == "beside")


def test_what_deepstream_and_onnxruntime_need(here: Path, cli: Cli) -> None:
    inverse(here / "m.onnx", (2, 1, 4, 4))
    assert cli("convert m.onnx -o m.plan --no-verify").code == 0
    refused(
        cli("bundle m.plan --for deepstream"),
        2,
        "DeepStream runs no engine of TensorRT-RTX",
        "--flavour tensorrt",
    )
    as_tensorrt(Path("m.plan"))
    ran = cli("bundle m.plan --for deepstream")
    assert ran.code == 0 and "start:  nvinfer config-file-path=config_infer_primary.txt" in ran.out
    assert "files:\n  config_infer_primary.txt  " in ran.out
    assert "note: libregister_plugins.so" in ran.err
    ran = cli("bundle m.plan --for onnxruntime")
    assert ran.code == 0 and f"\n  m_ctx.onnx  {Path('m_ctx.onnx').stat().st_size:,} bytes\n" in ran.out
    assert "start:\nimport onnxruntime\nimport tensorrt\n" in ran.out and "libtrtsmith_plugins.so" in ran.out
    refused(
        cli("bundle m.plan --for onnxruntime --name m --instances 2"),
        2,
        "--name does not go with --for onnxruntime",
        "--instances does not",
    )
    refused(
        cli("bundle m.plan"),
        2,
        "no model repository is named for m.plan",
        "--output models/; or --for deepstream",
    )
    refused(cli("bundle m.plan --for openvino"), 2, "invalid choice: 'openvino'")
    with pytest.raises(trtsmith.UsageError, match="nothing can be written for 'openvino'"):
        trtsmith.bundle("m.plan", runtime="openvino")
