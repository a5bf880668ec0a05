"""The data of a page matches the stages' findings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import trtsmith
from tests.converter.models import inverse, parsed, written
from trtsmith.converter.base.errors import ConversionError
from trtsmith.converter.cli.main import main
from trtsmith.converter.convert.analysis import AnalysisOptions, analyse
from trtsmith.converter.engine.bundle.bundle import toolkit_version
from trtsmith.converter.model.load import load_model
from trtsmith.converter.pages.conversion_document import (
    PageContent,
    conversion_document,
    explanations,
    rewrites_in_groups,
)
from trtsmith.converter.pages.model_explorer import overlays
from trtsmith.converter.pages.network.node_values import PicturedNetwork, pictured
from trtsmith.converter.rewrite.phases import PHASES
from trtsmith.converter.rewrite.rules import RULES

LAYERS = {
    "sum_ms": 3.0,
    "inferences": 30,
    "layers": [
        {"layer": "neg", "ms": 1.0, "share": 0.333, "type": "Neg", "nodes": ["neg"], "plugin": None},
        {
            "layer": "inv",
            "ms": 2.0,
            "share": 0.667,
            "type": "MatrixInverse",
            "nodes": ["inv/MatrixInverse"],
            "plugin": "MatrixInverse",
        },
    ],
    "by_type": [],
    "by_plugin": [],
}
BENCH: dict[str, Any] = {
    "engine": {"bytes": 1 << 20, "flavour": "tensorrt_rtx", "version": "1.7"},
    "runs": [
        {"unavailable": "no graph"},
        {"latency_ms": {"median": 1.25}, "throughput": 800.0, "point": "opt", "cuda_graph": False},
    ],
    "layers": LAYERS,
    "warnings": ["hot"],
    "gpu": "a GPU",
}
LOCATED: dict[str, Any] = {
    "status": "rounding",
    "sentence": "no node is wrong",
    "values": [{"name": "n", "error": 1e-3, "reason": ""}, {"name": "y", "error": None, "reason": "NaN"}],
}


def page_data(page: Path) -> Any:
    text = page.read_text(encoding="utf-8")
    begin = text.index('id="page-data">') + len('id="page-data">')
    return json.loads(text[begin : text.index("</script", begin)])


@pytest.fixture
def network(tmp_path: Path) -> PicturedNetwork:
    analysis = analyse(load_model(inverse(tmp_path / "m.onnx")), AnalysisOptions(compiled=False))
    return pictured(analysis.original, analysis.rewritten, analysis.plan)


def test_errors_and_times_stand_at_their_nodes(network: PicturedNetwork) -> None:
    known = PageContent("locate", "m.onnx", (), {}, {}, network, LOCATED, BENCH)
    document = conversion_document(known)
    names = [document["network"]["texts"][n] for n in document["network"]["names"]]
    assert names == ["x", "neg", "inv", "y"]
    assert document["errors"] == [[1, "n", 1e-3, ""], [2, "y", None, "NaN"]]
    assert document["times"] == {1: [1.0, 1], 2: [2.0, 1]}
    assert document["status"]["level"] == "fair" and document["warnings"] == ["hot"]


def test_rewrites_of_one_rule_stand_together_with_its_sentence(tmp_path: Path) -> None:
    body = " ".join(f"[inv{i}] v{i + 1} = com.microsoft.Inverse (v{i})" for i in range(5))
    model = parsed(tmp_path / "m.onnx", f"(float[2,3,3] v0) => (float[2,3,3] v5) {{ {body} }}")
    analysis = analyse(model, AnalysisOptions(compiled=False))
    (group,) = rewrites_in_groups(analysis.rewritten)
    assert group["count"] == 5 and group["nodes"] == [f"inv{i}" for i in range(5)]
    assert group["ops"] == {"com.microsoft::Inverse": 5} and group["rule"] == "aliases"
    network = pictured(analysis.original, analysis.rewritten, analysis.plan)
    rules = conversion_document(PageContent("convert", "m", (), {}, {}, network))["rules"]
    assert rules == {"aliases": "custom operators with an alias become plugin nodes"}


def test_every_rule_and_phase_is_explained() -> None:
    names = {*(rule.name for rule in RULES), *(phase.name for phase in PHASES)}
    assert explanations(names).keys() == names
    assert explanations(["types, profile", "no such rule"]).keys() == {"types", "profile"}


def test_overlays_for_model_explorer_are_keyed_by_nodes(network: PicturedNetwork) -> None:
    found = overlays(PageContent("locate", "m.onnx", (), {}, {}, network, LOCATED, BENCH))
    assert set(found) == {"route", "rule", "type", "error_log10", "time_ms"}
    assert (
        found["route"]["results"]["inv"]["value"] == "plugin"
        and "bgColor" in found["route"]["results"]["inv"]
    )
    assert found["rule"]["results"].keys() == {"inv"}
    assert found["error_log10"]["results"] == {"neg": {"value": -3.0}}
    assert found["time_ms"]["results"] == {"neg": {"value": 1.0}, "inv": {"value": 2.0}}
    for overlay in found.values():  # the two ends that its gradients need, and values that it can show
        stops = [step["stop"] for step in overlay.get("gradient", [{"stop": 0}, {"stop": 1}])]
        assert stops[::2] in ([0, 1], [0])
        assert all(isinstance(one["value"], (str, int, float)) for one in overlay["results"].values())


def test_overlays_of_nodes_without_names_go_by_their_outputs(tmp_path: Path) -> None:
    model = parsed(tmp_path / "m.onnx", "(float[1] x) => (float[1] y) { y = Relu (x) }")
    analysis = analyse(model, AnalysisOptions(compiled=False))
    network = pictured(analysis.original, analysis.rewritten, analysis.plan)
    assert overlays(PageContent("convert", "m", (), {}, {}, network))["route"]["results"].keys() == {"y"}


def test_convert_writes_a_page_and_overlays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, page, folder = inverse(tmp_path / "m.onnx"), tmp_path / "m.html", tmp_path / "overlays"
    words = f"convert {model} -o {tmp_path / 'm.plan'} --target sm86 --flavour tensorrt_rtx"
    assert main(f"{words} --html {page} --model-explorer {folder}".split()) == 0
    data = page_data(page)
    run = data["verdict"]["engine_run"]
    assert data["kind"] == "convert" and data["status"]["level"] == ("good" if run else "fair")
    assert data["status"]["word"] == ("agree" if run else "agree (graph only)")
    assert (
        data["status"]["reason"].endswith("; the engine itself was not run")
        is not data["verdict"]["engine_run"]
    )
    assert data["command"][:3] == ["trtsmith", "convert", str(model)]
    assert data["verdict"]["comparisons"] and data["files"]["m.plan"].startswith("sha256:")
    assert data["versions"].keys() >= {"tensorrt_rtx", "onnx", "onnxruntime", "python"}
    assert {path.name for path in folder.iterdir()} == {"route.json", "rule.json", "type.json"}
    assert page.name not in capsys.readouterr().out


def test_a_model_that_is_refused_has_a_page_with_its_routes(tmp_path: Path) -> None:
    page = tmp_path / "g.html"
    model = written(tmp_path / "g.onnx", "(float[2] x) => (float[2] y) { r = Relu (x) y = acme.Gate (r) }")
    assert main(["convert", str(model), "-o", str(tmp_path / "g.plan"), "--html", str(page)]) == 1
    data = page_data(page)
    assert data["versions"]["trtsmith"] == toolkit_version()
    assert data["status"]["word"] == "not converted" and "acme::Gate" in data["problems"][0]["what"]
    texts = data["network"]["texts"]
    assert [texts[n] for n in data["network"]["routes"]] == ["", "native", "unsupported", ""]


def test_a_page_that_cannot_be_written_is_refused_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = inverse(tmp_path / "m.onnx")
    words = ["convert", str(model), "-o", str(tmp_path / "m.plan")]
    for more in (
        ["--html", str(model)],
        ["--html", str(tmp_path)],
        ["--html", str(tmp_path / "m.plan")],
        ["--model-explorer", str(model)],
    ):
        assert main([*words, *more]) == 2
        assert more[0] in capsys.readouterr().err
    assert not (tmp_path / "m.plan").exists()


def test_the_python_functions_write_pages_too(tmp_path: Path) -> None:
    page = tmp_path / "m.html"
    done = trtsmith.convert(
        inverse(tmp_path / "m.onnx"), flavour="tensorrt_rtx", target="sm86", verify=None, html=page
    )
    data = page_data(page)
    assert data["command"] == [] and data["status"]["level"] == "fair" and done.bundle is None
    gate = written(tmp_path / "g.onnx", "(float[2] x) => (float[2] y) { y = acme.Gate (x) }")
    with pytest.raises(ConversionError):
        trtsmith.convert(gate, html=page)
    assert page_data(page)["status"]["level"] == "bad"


def test_what_8_bits_cost_is_told() -> None:
    cost = {
        "precision": "int8",
        "samples": "mine",
        "outputs": [{"output": "y", "error": 0.25, "rows": 8, "flipped": 3}],
    }
    verdict = {"status": "agree", "reason": "", "engine_run": False, "cost": {**cost, "layers": []}}
    page = conversion_document(PageContent("convert", "m.onnx", (), {"verdict": verdict}, {}))
    assert page["cost"] == [
        "cost of int8: 'y' changes by 2.5e-01; another class is first in 3 of 8 rows (on mine)"
    ]
