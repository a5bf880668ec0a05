"""A page is measured: its size, when it is there, how it searches and moves."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from pagecheck.chromium import find_chromium
from pagecheck.large_network import large_network
from pagecheck.measure_page import LIMITS, SEARCHES, measure
from pagecheck.sample_page import sample_document
from trtsmith.converter.pages.conversion_page import conversion_page


def test_the_network_has_the_nodes_that_were_asked_for() -> None:
    for nodes in (40, 1000):
        model = large_network(nodes)
        onnx.checker.check_model(model)
        assert len(model.graph.node) == nodes
        assert len({node.name for node in model.graph.node}) == nodes


@pytest.mark.skipif(find_chromium() is None, reason="no Chromium here: pages are not looked at")
def test_a_page_is_measured(tmp_path: Path) -> None:
    onnx.save(large_network(300), tmp_path / "network.onnx")
    page = tmp_path / "page.html"
    page.write_text(conversion_page(sample_document(tmp_path / "network.onnx")), encoding="utf-8")
    figures = measure(page)
    assert figures["complaints"] == [] and figures["requests"] == []
    assert figures["bytes"] == page.stat().st_size < LIMITS["bytes"]
    assert figures["first_contentful_paint_ms"] > 0 and figures["ready_ms"] > 0
    assert figures["search_ms"] >= 0 and len(SEARCHES) > 3
    assert all(0 < one["median"] <= one["max"] for one in figures["frames_ms"].values())
