"""Reports of --report survive a round trip."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

import trtsmith
from tests.converter.cli.commands.running import Ran
from tests.converter.cli.commands.running import trtsmith as run
from tests.converter.models import inverse, written
from tests.converter.verify.fake_engine import FakeEngine
from trtsmith.argument_words import flags_kept
from trtsmith.converter.convert.reports import load_report
from trtsmith.converter.verify import candidates, verify_bundle
from trtsmith.converter.verify.compare import Comparison
from trtsmith.converter.verify.findings import finding
from trtsmith.converter.verify.verdict import LeftOut, Verdict
from trtsmith.importers.problem import Problem

R = Path("r.json")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """m.onnx can be converted; bad.onnx has an operator that nobody knows."""
    monkeypatch.chdir(tmp_path)
    inverse(Path("m.onnx"))
    written(Path("bad.onnx"), "(float[2, 4, 4] x) => (float[2, 4, 4] y) { [odd] y = mine.Nothing (x) }")
    return tmp_path


def reported(capsys: pytest.CaptureFixture[str], *arguments: str) -> Ran:
    return run(capsys, *arguments, "-q", "--report", R)


def typed_problems() -> tuple[Problem, ...]:
    """The problems of bad.onnx in the words of the command line, which wrote the report."""
    with flags_kept():
        return trtsmith.check("bad.onnx").problems


def test_of_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert reported(capsys, "check", "m.onnx").code == 0
    report = load_report(R)
    assert (report.kind, report.passed, report.problems, report.verdict) == ("check", True, (), None)
    assert report.routes == {"native": 1, "plugin": 1}
    assert report.document == json.loads(R.read_text())
    assert reported(capsys, "check", "bad.onnx").code == 1
    report = load_report(R)
    assert not report.passed and report.problems == typed_problems() != ()
    assert report.routes == {"unsupported": 1}


def test_of_convert_and_of_the_manifest(capsys: pytest.CaptureFixture[str]) -> None:
    assert reported(capsys, "convert", "m.onnx", "-o", "e.plan").code == 0
    report, manifest = load_report(R), load_report(Path("e.manifest.json"))
    assert (report.kind, manifest.kind) == ("convert", "manifest")
    assert report.verdict is not None and report.verdict.comparisons[0].shape == (2, 4, 4)
    assert (report.verdict, report.routes) == (manifest.verdict, manifest.routes) and manifest.passed
    assert report.passed and report.routes == {"native": 1, "plugin": 1}
    (node,) = report.document["nodes"]  # those that are not native
    assert node["route"] == "plugin" and node["name"] and node["op_type"]
    assert reported(capsys, "convert", "m.onnx", "-o", "e.plan", "--rtol", "0").code == 3
    report, manifest = load_report(R), load_report(Path("e.manifest.json"))
    assert report.verdict is not None and report.verdict.status == "disagree"
    assert not report.passed and not manifest.passed
    assert reported(capsys, "convert", "m.onnx", "-o", "e.plan", "--no-verify").code == 0
    report = load_report(R)
    assert report.passed and report.verdict is None
    assert reported(capsys, "convert", "bad.onnx", "-o", "bad.plan").code == 1
    report = load_report(R)
    assert not report.passed and report.problems == typed_problems()


def test_of_verify(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    trtsmith.convert("m.onnx", "e.plan", verify=None)
    fake = FakeEngine(Path("m.onnx"))
    monkeypatch.setattr(verify_bundle, "describe_engine", fake.describe)
    monkeypatch.setattr(candidates, "run_engine", fake.run)
    assert reported(capsys, "verify", "m.onnx", "e.plan").code == 0
    report = load_report(R)
    assert report.kind == "verify" and report.passed and report.routes == {}
    assert report.verdict == trtsmith.verify("m.onnx", "e.plan")
    fake.planted = lambda outputs: {"y": outputs["y"] * float("nan")}
    assert reported(capsys, "verify", "m.onnx", "e.plan", "--no-per-node").code == 3
    report = load_report(R)
    assert report.verdict is not None and report.verdict.status == "disagree" and not report.passed
    assert math.isnan(report.verdict.comparisons[0].actual or 0)
    assert reported(capsys, "verify", "m.onnx", "e.plan", "--rtol", "q:1").code == 2
    report = load_report(R)
    assert not report.passed and report.problems[0].what == "the model has no output 'q'"


def test_a_verdict_comes_back_from_json() -> None:
    numbers = (math.inf, 1.5, 1.0, 1.5, (1, 2), 0.5, 0.0, math.inf, 6)
    comparisons = (
        Comparison("y", "float32", (2, 3), False, "far", *numbers, "min"),
        Comparison("z", "int64", (), True, "equal", compared=1),
    )
    left_out = (LeftOut(finding("random", "r", op_type="RandomNormal", node="n")),)
    findings = (finding("moved by inputs", "y", "min", by=1e-6, changed=math.inf),)
    verdict = Verdict(
        "disagree", True, "x.npz", comparisons, ("x: sizes",), left_out, findings, "tf32", "", ("old",)
    )
    again = Verdict.from_json(json.loads(json.dumps(verdict.to_json(), allow_nan=False)))
    assert again == verdict and again.references == verdict.references != ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "No such file or directory"),
        ("", "JSONDecodeError"),
        ("[]", "TypeError: [] is not an object"),
        ("{}", "ValueError: there is none of 'convertible', 'converted', 'verified' in it"),
        ('{"convertible": 1}', "TypeError: 1 is neither true nor false"),
        ('{"convertible": false, "problems": [{"what": "w"}]}', "KeyError: 'where'"),
        ('{"verified": true, "verdict": {"status": "agree"}}', "KeyError: 'comparisons'"),
        ('{"verified": true, "verdict": {"comparisons": [], "meanings": [], "left_out": [], "warnings": [], "x": 1}}',
         "'x'"),
        ("[" * 100_000, "RecursionError"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_report_is_refused_in_four_parts(text: str | None, words: str) -> None:
    if text is not None:
        R.write_text(text)
    with pytest.raises(trtsmith.UsageError) as caught:
        load_report(R)
    (problem,) = caught.value.problems
    assert (
        words in problem.what and problem.where == "r.json" and "--report" in problem.expected + problem.fix
    )
