"""The documents' generated parts are up to date, and the generators detect faults."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import generate_docs
import trtsmith
from docpages import (
    evidence,
    figures,
    operators,
    python_api,
    real_networks,
    record_ages,
    rule_use,
)
from docpages.marks import DocumentError, fill
from docpages.operator_matrix import COLUMNS, KINDS, render
from docpages.python_api import PAGES
from freshness.record_rows import README, ROWS
from freshness.record_state import ABSENT, FRESH, STALE, RecordState
from gpucheck import engine_tables
from trtsmith.importers.registry import OPS, by_name

DOCUMENT = "a\n<!-- generated: one -->\nold\n<!-- end of one -->\nb\n"


def test_documents_are_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert generate_docs.main(["--check"]) == 0, capsys.readouterr().err


def test_a_changed_document_is_out_of_date_until_it_is_generated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "docs/reference/operators.md"
    monkeypatch.setattr(generate_docs, "DOCUMENTS", {name: generate_docs.DOCUMENTS[name]})
    copy = tmp_path / name
    copy.parent.mkdir(parents=True)
    shutil.copy(generate_docs.ROOT / name, copy)
    text = copy.read_text(encoding="utf-8")
    copy.write_text(text.replace("MMCVMultiScaleDeformableAttention", "Somebody"), encoding="utf-8")
    assert generate_docs.main(["--check"], tmp_path) == 1
    assert (
        "docs/reference/operators.md is out of date: python scripts/generate_docs.py"
        in capsys.readouterr().err
    )
    assert generate_docs.main([], tmp_path) == 0
    assert copy.read_text(encoding="utf-8") == text


def test_only_what_is_between_the_marks_changes() -> None:
    filled = fill(DOCUMENT, {"one": "new"})
    assert filled == "a\n<!-- generated: one -->\n\nnew\n\n<!-- end of one -->\nb\n"
    assert fill(filled, {"one": "new"}) == filled


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("no marks", {"one": "new"}),
        (DOCUMENT + DOCUMENT, {"one": "new"}),
        ("<!-- end of one --> <!-- generated: one -->", {"one": "new"}),
        (DOCUMENT, {}),
    ],
)
def test_marks_that_do_not_fit_are_an_error(text: str, parts: dict[str, str]) -> None:
    with pytest.raises(DocumentError):
        fill(text, parts)


def test_the_table_of_figures_is_that_of_the_records(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text, changed = figures.figures(), tmp_path / "record.json"
    record = evidence.read(evidence.COVERAGE_RECORD)
    record["summary"] |= {"built_as_is": 7}
    changed.write_text(json.dumps(record))
    monkeypatch.setattr(evidence, "COVERAGE_RECORD", changed)
    assert figures.figures() == text.replace("915 build, 887 do not", "7 build, 1,795 do not") != text


def test_records_have_their_age_on_their_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    made = RecordState("", FRESH, "abcdef0123", "2026-11-23")
    old = replace(made, state=STALE, since="since then the kernels changed")
    states = {row.file: old if row.file == "h200/bench.json" else made for row in ROWS}
    monkeypatch.setattr(record_ages, "_states", lambda: states)
    lines = record_ages.part_of("docs/evidence/kernels.md")["age of records"]().splitlines()
    assert "- `h200/bench.json`: measured at abcdef0, 2026-11-23; since then the kernels changed" in lines
    assert "- `h200/selection.json`: measured at abcdef0, 2026-11-23" in lines
    assert len(record_ages.part_of(record_ages.INDEX)["age of records"]().splitlines()) == len(ROWS)
    assert not record_ages.part_of("README.md")
    states |= {
        "h200/tuning.json": replace(old, date="2026-11-25"),
        "judge.json": replace(old, file="judge.json", date=""),
    }
    said = {
        ("h200/selection.json",): "All of it was measured on this code.",
        ("h200/selection.json", "h200/bench.json"): "Measured on 2026-11-23; the code has changed since.",
        (
            "h200/bench.json",
            "h200/tuning.json",
            "judge.json",
        ): "Measured from 2026-11-23 to 2026-11-25; the code has changed since. "
        "When `benchmarks/judge.json` was measured is not known.",
        ("judge.json",): "Its records name no date; the code has changed since.",
    }
    assert {files: record_ages.older_said(*files) for files in said} == said
    tables = {*figures.WITHOUT_GPU, *figures.ON_GPU, *figures.SPEED}
    assert tables == {row.file for row in ROWS if README in row.pages}, (
        "`make release` refuses these if they are old"
    )


def test_ages_need_the_commits_that_records_name(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = RecordState("", STALE, "abcdef0123", "2026-11-23", ABSENT)
    monkeypatch.setattr(record_ages, "state_of", lambda row: absent)
    record_ages._states.cache_clear()
    with pytest.raises(DocumentError, match="names abcdef0123, which this checkout does not have: git fetch"):
        record_ages.older_said("h200/bench.json")


def test_rows_of_figures_add_up() -> None:
    one, several = ("agrees", "agree"), ("disagrees", "disagree")
    assert figures.shares(3, [(2, one), (1, several)]) == "2 agree, 1 disagrees"
    assert figures.shares(1234, [(1234, one), (0, several)]) == "1,234 agree"
    with pytest.raises(DocumentError, match="2 agree, 1 disagrees: that is not 4 in all"):
        figures.shares(4, [(2, one), (1, several)])


def test_outcomes_of_networks_on_a_gpu_are_verdicts() -> None:
    built = {"engine_bytes": 1}
    for outcome, verdict in (
        ("agrees", "agree"),
        ("1 of 2 outputs compared: largest relative error 1.0e-03", "agrees in part"),
        ("output 'y' is not comparable: it is zero", "not comparable"),
        ("y: relative error 1.7e-01, allowed 0.12", "disagree"),
        ("the engine could not be run: TensorRT refused it", "did not run"),
    ):
        assert real_networks.verdict(built | {"outcome": outcome}) == verdict
    assert real_networks.verdict({"engine_bytes": 0, "outcome": "TensorRT died"}) == "not built"
    assert {real_networks.verdict(one) for one in real_networks.engines()} <= set(figures.WORDS)


def test_registries_are_told_apart_where_they_differ() -> None:
    record = evidence.read(evidence.REGISTRIES_RECORD)
    first, *others = record["answers"]
    assert f"| each of {len(others) + 1} |" in evidence.render_registries(record)
    asked = record["answers"][first]["asked"]["V3"]["MatrixInverse"]
    asked["refusals"] += 1000
    record["answers"][first]["faults"] = ["a fault"]
    text = evidence.render_registries(record)
    rows = [line for line in text.splitlines() if line.startswith("| MatrixInverse | V3 |")]
    assert [row.rpartition(" | ")[2] for row in rows] == ["1 |", f"{len(others)} |"]
    refusals = sum(one["refusals"] for one in record["answers"][first]["asked"]["V3"].values())
    assert re.search(rf"\| TensorRT {re.escape(first)} \| V3 \|.* \| {refusals:,} \|.* \| 1 \|", text)


VERDICTS = ["exact", "tf32", "wrong", "not built", "shapes"]
TESTS = [{"case": f"c{i}", "op": "Add" if i else "Abs", "verdict": v} for i, v in enumerate(VERDICTS)]


def test_engine_tables_count_every_case() -> None:
    counted = [("Abs", "1", "1", "0", "0", "0"), ("Add", "4", "2", "1", "1", "1")]
    assert engine_tables.node_test_rows(TESTS) == counted
    rules = [{"rule": "r", "example": str(i), "verdict": v} for i, v in enumerate(VERDICTS[:4])]
    assert engine_tables.rule_rows(rules) == [("r", "4", "2", "1", "2")]
    graphs = [
        {"seed": 7, "verdict": "wrong", "reason": "output 'v3'", "graph": "<...>"},
        {"verdict": "agrees", "graphs": 11, "reason": ""},
        {"verdict": "wrong", "graphs": 1, "reason": "seed 7: a | b"},
    ]
    assert engine_tables.graph_rows(graphs) == [("agrees", "11", ""), ("wrong", "1", "seed 7: a \\| b")]


FAR = {"network": "n", "precision": "fp32", "engine": 2e-3, "used": 0.2, "status": "agree", "passed": True}
LOST = {"passed": False, "status": "disagree"}


def test_the_output_nearest_to_its_limit_is_shown_and_no_failure_is_lost() -> None:
    near = {**FAR, "engine": 1e-4, "used": 0.83}
    refused = {**LOST, "network": "m", "precision": "fp16", "reason": "not built: no importer"}
    loose = {**FAR, **LOST, "precision": engine_tables.COMPARED[0]}
    for tests, rows in (
        ([FAR, near, refused], [("n", "fp32", "1.0e-04", "83%", "agrees"), ("m", "fp16", "", "", "not built: no importer")]),
        ([FAR, {**near, **LOST, "engine": None}], [("n", "fp32", "infinite", "", "disagrees")]),
    ):  # fmt: skip
        assert engine_tables.network_rows(tests) == rows
    for tests in ([FAR, {**near, **LOST}], [loose]):
        assert engine_tables.network_rows(tests)[0][-1] == "disagrees"
    gone = {**FAR, **LOST, "precision": "fp16 with a flag that is gone"}
    for other, said in (
        (loose, "1 of 1 networks agree, in fp32: 1 of 1 outputs agree, 0 are not comparable, 0 disagree"),
        (gone, "1 of 1 networks agree, in fp32: 1 of 1 outputs agree, 0 are not comparable, 0 disagree"),
        (
            {**FAR, **LOST, "network": "k", "precision": "fp16"},
            "1 of 2 networks agree, in fp32, fp16: 1 of 2 outputs agree, 0 are not comparable, 1 disagree",
        ),
    ):
        assert engine_tables.networks_said([FAR, other]) == said


def test_what_was_not_done_is_said_to_be_not_run() -> None:
    packages, done = {"torch": "2", "tensorrt": None, "onnx": "1"}, {"summary": "3 of 5", "rows": TESTS}
    record = {"gpu": "G", "driver": "1", "packages": packages, "steps": {"onnx-tests": done}}
    assert engine_tables.was_done(record, "onnx-tests") and not engine_tables.was_done(record, "networks")
    late = {"steps": {"onnx-tests": {"rows": [{"verdict": "not done"}] * 2}}}
    assert not engine_tables.was_done(late, "onnx-tests")
    page = evidence.render_engines(record, "onnx-tests")
    assert page.startswith("G, driver 1, onnx 1, torch 2. 3 of 5.\n\n| operator |") and "| Add | 4 |" in page
    assert "not run" in evidence.render_engines(record, "rules")


def test_networks_of_the_models_folder_in_a_table() -> None:
    rows = [FAR, {**FAR, **LOST, "network": "k"}]
    record = {"gpu": "G", "driver": "1", "packages": {"torch": "2"}, "steps": {"networks": {"rows": rows}}}
    page = evidence.render_engines(record, "networks")
    assert "1 of 2 networks agree, in fp32" in page
    assert "| n | fp32 | 2.0e-03 | 20% | agrees |" in page and "| k | fp32 |" in page


def test_networks_are_counted_by_the_rules_that_they_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By network, not by export; rules that only tests reach, or none, stand apart, and older rows are left out."""
    rows = [
        {"network": "a", "export": "", "met": {"rules": ["resize"], "aliases": ["mmdeploy::grid_sampler"]}},
        {"network": "a", "export": "", "met": {"rules": ["resize", "types"]}},
        {"network": "b", "export": "", "met": {"rules": ["types"]}},
        {"network": "c", "export": "", "met": {}},
        {"network": "old", "export": ""},
        {"network": "failed", "export": "no"},
    ]
    cases = [{"name": name, "met": {"rules": [rule]}} for name, rule in (("d", "bitwise"), ("e", "types"))]
    (tmp_path / "popular_networks.json").write_text(json.dumps({"rows": rows}))
    (tmp_path / "onnx_coverage.json").write_text(json.dumps({"cases": cases}))
    monkeypatch.setattr(rule_use, "RECORDS", tmp_path)
    monkeypatch.setattr(rule_use, "NETWORKS", (rule_use.NETWORKS[0], rule_use.NETWORKS[-1]))
    assert "| popular networks | `popular_networks.json` | 3 of 4 |" in rule_use.records()
    page = rule_use.of_kind("rules")()
    assert page.splitlines()[0] == "| rules | popular networks (3) | ONNX's tests (2) |"
    assert page.splitlines()[2:4] == ["| `types` | 2 | 1 |", "| `resize` | 1 |  |"]
    assert (
        "Only ONNX's tests reach (1): `bitwise`." in page
        and "of TensorRT-RTX (1): `grid-sample-plugin`." in page
    )
    unreached = page.partition("No network or test on record reaches")[2]
    assert "`dft`" in unreached and not {"`types`", "`resize`", "`bitwise`"} & {*unreached.split(", ")}
    assert "| `grid_sampler` | 1 |  |" in rule_use.of_kind("aliases")()
    assert rule_use.of_kind("mitigations")().startswith(rule_use.NONE)
    (tmp_path / "popular_networks.json").write_text(json.dumps({"rows": rows[4:]}))
    assert rule_use.of_kind("rules")().startswith(rule_use.UNKNOWN)


def test_the_table_of_planted_errors() -> None:
    kernels = "the plugins' kernels, with onnxruntime for the other nodes"
    ends = {"model": "m", "on": "TensorRT"}
    planted = [
        {"plant": None, **ends, "found": False, "faults": ["n was named"]},
        {"plant": None, **ends, "on": kernels, "found": True, "faults": []},
        {"plant": "a wrong axis", **ends, "node": "s", "named": ["s", "t"], "found": True, "faults": []},
        {"plant": "a wrong weight", **ends, "node": "w", "found": False, "faults": ["it timed out"]},
    ]
    rows = [{"found": {"planted": planted}}]
    assert engine_tables.planted_rows(rows) == [
        ("nothing", "m", "TensorRT", "", "", "n was named"),
        ("nothing", "m", "kernels", "", "", "right"),
        ("a wrong axis", "m", "TensorRT", "s", "s", "right"),
        ("a wrong weight", "m", "TensorRT", "w", "", "it timed out"),
    ]
    said = engine_tables.planted_said(rows)
    assert said.startswith("1 of 2 errors were found") and said.endswith("in 1 of 2 searches")


def test_every_public_name_of_trtsmith_is_documented() -> None:
    listed = python_api.pages()["docs/reference/python/results.md"]["python results"]()
    for name in trtsmith.__all__:
        assert name in PAGES or f"## {name}\n" in listed or name == "__version__"
    assert set(PAGES) < set(trtsmith.__all__)
    index = (generate_docs.ROOT / "docs/reference/python/index.md").read_text(encoding="utf-8")
    assert [name for name in PAGES if f"[{name}](" not in index] == []


def line(name: str, types: str, *rows: dict[str, object]) -> list[str]:
    text = render([by_name()[name]], [{"op": name, "types": types, **row} for row in rows])
    (found,) = [row for row in text.splitlines() if f"| {types} |" in row]
    return [cell.strip() for cell in found.strip("|").split("|")][2:]


def row(route: str, kind: str, cases: int, passed: int) -> dict[str, object]:
    return {"route": route, "kind": kind, "cases": cases, "passed": passed}


def test_cases_are_counted_by_class_and_faults_are_bold() -> None:
    routes = list(COLUMNS)
    ordinary, empty, nan = KINDS
    cells = line(
        *("MatrixInverse", "float32"),
        *(row(routes[0], nan, 2, 2), row(routes[0], ordinary, 9, 9), row(routes[1], empty, 2, 1)),
    )
    assert cells[:3] == ["9 + 2", "**1 of 2**", "not run"]


def test_what_cannot_be_tried_has_its_footnote() -> None:
    cells = dict(zip(COLUMNS.values(), line("NonZeroPositions", "bfloat16 int64 int32"), strict=True))
    assert cells["expansion"] == "c" and cells["contract V2"] == cells["kernel V2"] == "a"
    assert cells["CUDA graph"] == "b" and cells["embedded"] == "not run"


def test_every_operator_alias_port_and_field_is_in_the_reference() -> None:
    sections = operators.operator_reference().split("### ")[1:]
    for op, section in zip(OPS, sections, strict=True):
        assert section.startswith(f"{op.name}\n")
        for alias in op.aliases:
            assert f"| `{alias.op_type}` | {operators.domains(alias)} |" in section
        assert all(f"`{one.name}`" in section for one in (*op.inputs, *op.outputs, *op.fields))


def test_every_operator_has_its_pytorch_form() -> None:
    text = operators.torch_operators()
    for op in OPS:
        assert (f"torch.ops.trtsmith.{op.snake_name}(" in text) is (op.torch_reference is not None)
        assert all(f"`{name}` as `{op.name}`" in text for name in op.aten)
