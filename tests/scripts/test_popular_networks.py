"""Programs, random weights, resuming and the page; one of PyTorch's own networks is exported and converted."""

import ast
import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from docpages.popular_tables import render_popular_networks, render_popular_programs
from popular_networks import main
from popularnetworks.architecture import DYNAMO, LEGACY, MODULE, OWN, Architecture, InputTensor
from popularnetworks.drawn_weights import draw, fill_graph, mark_weights, strip_graph
from popularnetworks.network_list import NETWORKS
from popularnetworks.network_trial import judged

RTX = pytest.mark.skipif(not importlib.util.find_spec("tensorrt_rtx"), reason="needs TensorRT-RTX")
LINEAR = Architecture(
    "Linear", "a layer", "torch", "torch.nn.Linear(64, 32)", {"x": "batch=2 64"}, "", (LEGACY,)
)


def test_inputs_are_read_from_their_text() -> None:
    ids = InputTensor.of("batch=2 sequence=16 <100")
    assert [axis.profile for axis in ids.axes] == [(1, 2, 4), (8, 16, 32)]
    assert ids.program() == "torch.randint(100, (2, 16,))"
    pixels = InputTensor.of("batch=2 3 height=64 64")
    assert pixels.dynamic == {0: "batch", 2: "height"}
    assert pixels.program() == "torch.rand(2, 3, 64, 64)"
    assert InputTensor.of("2 16 =1").program() == "torch.full((2, 16,), 1)"
    assert InputTensor.of("2 16 bool").program() == "torch.ones(2, 16, dtype=torch.bool)"


def test_networks_have_programs_and_names_of_their_own() -> None:
    assert len({one.name for one in NETWORKS}) == len(NETWORKS)
    for one in NETWORKS:
        for exporter in one.all_exporters:
            ast.parse(f"{one.build_program(exporter)}\n{one.export_program(exporter)}")


def test_a_program_imports_what_its_expression_names() -> None:
    one = replace(
        LINEAR, make="timm.models.vit(timm.layers.Norm)", own="some.hub.Net('a.yaml').export(opset=17)"
    )
    assert one.build_program(DYNAMO).splitlines()[:3] == [
        "import torch",
        "import timm.layers",
        "import timm.models",
    ]
    assert "import some.hub" in one.build_program(OWN)
    assert one.export_program(OWN) == "path = model.export(opset=17)"
    assert one.export_program(MODULE) == (
        'import trtsmith\ntrtsmith.check(model, tuple(inputs.values()), save_onnx="model.onnx", '
        "dynamic_shapes=({0: torch.export.Dim.AUTO},))"
    )


def _model() -> onnx.ModelProto:
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[2,64] x) => (float[2,32] y) { y = MatMul(x, w) }'
    proto = onnx.parser.parse_model(text)
    weight = np.random.default_rng(1).normal(0.5, 0.2, (64, 32)).astype(np.float32)
    table = np.eye(64, dtype=np.float32)
    proto.graph.initializer.extend(
        [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(table, "table")]
    )
    return proto


def test_weights_come_back_from_name_and_shape() -> None:
    assert not np.array_equal(draw("a", (4,)), draw("b", (4,)))
    proto = _model()
    mark_weights(proto)
    fill_graph(proto)
    weight, table = proto.graph.initializer
    array = numpy_helper.to_array(weight)
    assert abs(array.mean() - 0.5) < 0.02 and abs(array.std() - 0.2) < 0.02
    assert np.array_equal(numpy_helper.to_array(table), np.eye(64))
    before = proto.SerializeToString()
    strip_graph(proto)
    assert len(proto.SerializeToString()) < len(before) - array.nbytes
    fill_graph(proto)
    assert proto.SerializeToString() == before


def test_a_report_without_an_engine_says_why() -> None:
    refused = judged({"problems": [{"what": "TensorRT refused Foo"}]})
    assert refused == {
        "builds": False,
        "verdict": "no engine",
        "why": "TensorRT refused Foo",
        "relative": None,
    }


@RTX
def test_a_network_is_exported_converted_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "record.json"
    words = ["--output", str(output), "--folder", str(tmp_path / "files")]
    broken = replace(LINEAR, name="Broken", make="torch.nn.Linear(3, 3)")
    for precision in ("fp32", "fp16"):
        assert main([*words, "--precision", precision], [LINEAR, broken]) == 0
    linear, failed = json.loads(output.read_text())["rows"]
    assert linear["dynamic"] == ["batch"] and linear["alone"] == "builds"
    assert linear["met"] == {} and "met" not in failed
    assert [found["verdict"] for found in linear["precisions"].values()] == ["agree", "agree"]
    assert "cannot be multiplied" in failed["export"] and "precisions" not in failed
    capsys.readouterr()
    main([*words, "--precision", "fp32"], [LINEAR, broken])
    assert capsys.readouterr().out == ""  # nothing is left to do

    older = json.loads(output.read_text())
    del older["rows"][0]["met"], older["rows"][0]["precisions"]["fp16"]
    output.write_text(json.dumps(older))
    main([*words, "--precision", "fp16"], [LINEAR, broken])
    assert "met" not in json.loads(output.read_text())["rows"][0], "the names of one precision are not all"

    older |= {"commit": "before", "rests_on": "other code"}
    output.write_text(json.dumps(older))
    main([*words, "--precision", "fp32", "--convert-again"], [LINEAR, broken])
    again = json.loads(output.read_text())
    assert again["commit"] != "before" and [*again["rows"][0]["precisions"]] == ["fp32"]
    assert again["rows"][0]["export_seconds"] == linear["export_seconds"] and again["rows"][1] == failed
    main([*words, "--precision", "fp16"], [LINEAR, broken])

    page = render_popular_networks(json.loads(output.read_text()))
    assert "2 networks, 2 exports, of which 1 fail." in page
    assert "| fp16 | 1 | 1 | 0 | 0 | 0 | 0 |" in page
    assert "| [torch](popular/torch.md) |" in page and "| 2 | 2 | 1 of 1 | 1 of 1 |" in page
    programs = render_popular_programs([linear, failed])
    assert "### Linear (torch) to ONNX and TensorRT" in programs and "# legacy (fails)" in programs
