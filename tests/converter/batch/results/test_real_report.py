"""A real conversion's report and its entry in results.json agree."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.converter.batch.results.sample import record, write_results
from tests.converter.models import inverse
from trtsmith.converter.batch.results.document import load_results
from trtsmith.converter.cli.main import main


def test_the_entry_of_a_real_conversion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    inverse(Path("m.onnx"))
    assert main(["convert", "m.onnx", "-o", "e.plan", "-q", "--report", "r.json"]) == 0
    report = json.loads(Path("r.json").read_text())
    write_results(tmp_path, [record("m", report=report)])
    (entry,) = json.loads(Path("results.json").read_text())["tasks"]
    engine = entry["engine"]
    assert (
        engine["bytes"] == Path("e.plan").stat().st_size and engine["targets"] == report["engine"]["targets"]
    )
    assert len(engine["plugin_layers"]) == 1 and engine["layers"] > 1 and engine["version"]
    assert entry["routes"] == {"native": 1, "plugin": 1} and list(entry["nodes"].values()) == ["plugin"]
    (output,) = entry["verdict"]["outputs"]
    assert output["agrees"] and 0 <= output["used"] <= 1 and output["relative"] is not None
    assert entry["verdict"]["engine_run"] is report["verdict"]["engine_run"]
    task = load_results(tmp_path).by_name["m"]
    assert task.verdict and task.verdict.outputs[0].used == output["used"]
    assert task.engine and task.engine.bytes == engine["bytes"]
