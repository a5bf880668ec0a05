"""Every report matches its published schema, which lists all entries, and so does the document."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.converter.models import inverse, relu, written
from trtsmith.converter.cli.main import main
from trtsmith.converter.convert.reports import FORMAT, SCHEMA
from trtsmith.converter.locate.found import Growth, Located, NodeReport, TensorReport
from trtsmith.converter.verify.compare import Comparison
from trtsmith.converter.verify.verdict import Verdict

GATE = "(float[2] x) => (float[2] y) { [gate] y = acme.Gate (x) }"
DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "reference" / "report-json.md"


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(SCHEMA.read_text())
    jsonschema.Draft202012Validator.check_schema(loaded)
    return loaded


def strict(schema: Any) -> Any:
    """The same, with no entry allowed that it does not name."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: strict(one) for name, one in schema.items()}
    if isinstance(schema.get("properties"), dict) and len(schema["properties"]) > 1:
        made["additionalProperties"] = False
    return made


def check(schema: dict[str, Any], report: Any, kind: str) -> None:
    part = {"$schema": schema["$schema"], "$ref": f"#/$defs/{kind}", "$defs": strict(schema["$defs"])}
    jsonschema.validate(report, part)  # of the kind, where errors can be read
    if kind != "located":
        jsonschema.validate(report, schema)  # of that kind alone


def reported(command: list[object], path: Path) -> Any:
    main([*map(str, command), "--report", str(path)])
    return json.loads(path.read_text())


def test_check_writes_what_the_schema_says(schema: dict[str, Any], tmp_path: Path) -> None:
    report = reported(["check", inverse(tmp_path / "m.onnx"), "--precision", "fp16"], tmp_path / "r.json")
    check(schema, report, "check")
    assert report["format"] == FORMAT and report["rewrites"] and report["plugins"] and report["precision"]
    report = reported(["check", written(tmp_path / "g.onnx", GATE)], tmp_path / "r.json")
    check(schema, report, "check")
    assert report["problems"]


def test_convert_writes_what_the_schema_says(schema: dict[str, Any], tmp_path: Path) -> None:
    command: list[object] = ["convert", inverse(tmp_path / "m.onnx"), "-o", tmp_path / "m.plan"]
    report = reported([*command, "--flavour", "tensorrt_rtx", "--target", "sm86"], tmp_path / "r.json")
    check(schema, report, "convert")
    assert report["format"] == FORMAT and report["verdict"]["comparisons"]
    assert [(node["name"], node["route"]) for node in report["nodes"]] == [("inv", "plugin")]
    assert [record["node"] for record in report["rewrites"]] == ["inv"]


def test_what_cannot_be_done_is_a_report_too(schema: dict[str, Any], tmp_path: Path) -> None:
    report = reported(
        ["convert", written(tmp_path / "g.onnx", GATE), "-o", tmp_path / "g.plan"], tmp_path / "r.json"
    )
    check(schema, report, "failed")
    report = reported(["verify", relu(tmp_path / "m.onnx"), tmp_path / "no.plan"], tmp_path / "r.json")
    check(schema, report, "failed")


def test_verdicts_and_what_was_located_are_what_the_schema_says(schema: dict[str, Any]) -> None:
    comparison = Comparison(
        "y", "float32", (2, 3), False, "off", float("inf"), 1.0, 0.5, 0.9, (1, 2), 0.0, float("nan"), 2.0, 6
    )
    verdict = Verdict("disagree", True, "made up", (comparison,))
    tensor = TensorReport("y", "float32", (2, 3), None, 1.0, float("inf"), "off")
    node = NodeReport("n", "Relu", "", (tensor,), (tensor,), {"alpha": 1.0}, ("m",), True)
    growth, skipped = (Growth("n", "Relu", 0.1, float("inf")),), (("z", "a sequence"),)
    found = Located("node", "TensorRT", "made up", (node,), growth, (tensor,), skipped)
    check(schema, json.loads(json.dumps(found.to_json())), "located")
    report = {"format": FORMAT, "verified": True, "trtsmith": "1", "model": "m", "engine": "e"}
    report |= {"verdict": verdict.to_json()}
    check(schema, json.loads(json.dumps({**report, "located": found.to_json()})), "verify")


def test_the_document_has_every_entry(schema: dict[str, Any]) -> None:
    text = DOCUMENT.read_text()
    for kind in ("check", "convert", "verify", "failed"):
        for entry in schema["$defs"][kind]["properties"]:
            assert f"| `{entry}` |" in text, (kind, entry)


def test_a_report_that_lacks_an_entry_or_has_another_format_is_refused(
    schema: dict[str, Any], tmp_path: Path
) -> None:
    report = reported(["check", relu(tmp_path / "m.onnx")], tmp_path / "r.json")
    for change in ({"format": FORMAT + 1}, {"routes": {"native": "1"}}, {"nodes": [{}]}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**report, **change}, schema)
