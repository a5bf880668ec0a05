"""Each stage's facts on a page: the network and its routes, from the manifest if that is all there is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import trtsmith
from tests.converter.cli.terminal.screen import convolutions
from tests.converter.models import inverse
from trtsmith.converter.bench.subject import BenchOptions
from trtsmith.converter.locate.prepare import LocateOptions, PreparedSearch, prepared
from trtsmith.converter.pages.contents import of_search, of_timing, of_verification
from trtsmith.converter.pages.conversion_document import PageContent, conversion_document
from trtsmith.converter.verify.verify_bundle import VerifyOptions

WORDS = ("trtsmith", "some", "command")

TIMES: dict[str, Any] = {
    "engine": {"bytes": 1000, "flavour": "tensorrt_rtx", "version": "1.7.1"},
    "runs": [],
    "layers": {"layers": [{"nodes": ["inv/MatrixInverse", "neg"], "ms": 3.0}]},
    "warnings": [],
}


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with model.onnx, model.plan and its manifest."""
    folder = tmp_path_factory.mktemp("converted")
    model = inverse(folder / "model.onnx")
    trtsmith.convert(model, output=folder / "model.plan", flavour="tensorrt_rtx", target="sm86", verify=None)
    return folder


def routes(content: PageContent) -> dict[str, str]:
    network = content.network
    assert network is not None
    return {
        entry.name: route.route
        for entry, route in zip(network.entries.all, network.routes, strict=True)
        if entry.op
    }


def test_of_a_verification_the_routes_are_those_for_the_engine(converted: Path) -> None:
    asked = VerifyOptions(converted / "model.onnx", converted / "model.plan")
    content = of_verification(WORDS, asked, {"verified": True, "verdict": None}, {})
    assert routes(content) == {"neg": "native", "inv": "plugin"}
    document = conversion_document(content)
    assert document["files"].keys() >= {"model.plan"} and document["versions"]["tensorrt_rtx"]
    assert document["command"] == list(WORDS)


def test_of_a_verification_nodes_have_the_types_of_the_engine(tmp_path: Path) -> None:
    model = convolutions(tmp_path / "m.onnx", 2, 4)
    trtsmith.convert(
        model,
        output=tmp_path / "m.plan",
        flavour="tensorrt_rtx",
        target="sm86",
        verify=None,
        precision="fp16",
    )
    content = of_verification(WORDS, VerifyOptions(model, tmp_path / "m.plan"), {"verified": True}, {})
    assert content.network is not None
    assert {route.dtype for route in content.network.routes if route.route} == {"float16"}


def test_with_a_manifest_that_cannot_be_read_the_network_has_no_routes(
    converted: Path, tmp_path: Path
) -> None:
    engine = tmp_path / "alone.plan"
    engine.write_bytes((converted / "model.plan").read_bytes())
    engine.with_suffix(".manifest.json").write_text("{")
    content = of_verification(WORDS, VerifyOptions(converted / "model.onnx", engine), {"verified": True}, {})
    assert routes(content) == {"neg": "", "inv": ""} and content.manifest == {}


def test_of_a_search_there_are_the_errors_of_values(converted: Path) -> None:
    ready: list[PreparedSearch] = []
    with prepared(LocateOptions(converted / "model.onnx", on="kernels")) as one:
        ready.append(one)
    values = [
        {"name": "n", "error": 1e-6, "reason": ""},
        {"name": "y", "error": 0.5, "reason": "relative error 0.5"},
    ]
    found = {"status": "node", "sentence": "this node is wrong by itself", "values": values, "nodes": []}
    content = of_search(WORDS, converted / "model.onnx", None, ready[0], found)
    assert routes(content) == {"neg": "native", "inv": "plugin"}
    document = conversion_document(content)
    assert [error[1:] for error in document["errors"]] == [["n", 1e-6, ""], ["y", 0.5, "relative error 0.5"]]
    assert document["status"]["level"] == "bad"


def test_of_a_model_that_is_timed_nodes_share_the_time_of_their_layer(converted: Path) -> None:
    content = of_timing(WORDS, BenchOptions(converted / "model.onnx"), TIMES)
    document = conversion_document(content)
    assert list(document["times"].values()) == [[1.5, 2], [1.5, 2]]


def test_of_an_engine_that_is_timed_there_is_no_network(converted: Path) -> None:
    document = conversion_document(of_timing(WORDS, BenchOptions(converted / "model.plan"), TIMES))
    assert document["network"] is None and document["bench"] is TIMES and document["times"] == {}
