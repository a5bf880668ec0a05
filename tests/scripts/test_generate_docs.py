"""The documents' generated parts are up to date, and the generator finds what is wrong."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import generate_docs
from generate_docs import render_engines
from gpucheck import engine_tables
from trtsmith.importers.opdef import TYPE_VARIABLES, Alias
from trtsmith.importers.registry import OPS

DOCUMENT = "a\n<!-- generated: one -->\nold\n<!-- end of one -->\nb\n"


def test_documents_are_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert generate_docs.main(["--check"]) == 0, capsys.readouterr().err


def test_a_changed_readme_is_out_of_date_until_it_is_generated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = generate_docs.README.read_text(encoding="utf-8")
    # copies of all: the checkout's own stay as they are
    for name in ("README", "CONTRIBUTING", "COVERAGE", "REAL_MODELS", "ENGINES"):
        document: Path = getattr(generate_docs, name)
        monkeypatch.setattr(generate_docs, name, shutil.copy(document, tmp_path / document.name))
    copy = tmp_path / "README.md"
    copy.write_text(text.replace("MMCVMultiScaleDeformableAttention", "Somebody"), encoding="utf-8")
    assert generate_docs.main(["--check"]) == 1
    assert "generate_docs.py" in capsys.readouterr().err
    assert generate_docs.main([]) == 0
    assert copy.read_text(encoding="utf-8") == text


def test_only_what_is_between_the_marks_changes() -> None:
    filled = generate_docs.fill(DOCUMENT, {"one": "new"})
    assert filled == "a\n<!-- generated: one -->\n\nnew\n\n<!-- end of one -->\nb\n"
    assert generate_docs.fill(filled, {"one": "new"}) == filled


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
    with pytest.raises(generate_docs.DocumentError):
        generate_docs.fill(text, parts)


def test_every_alias_is_in_the_table() -> None:
    lines = {line.split("|")[1].strip("* "): line for line in generate_docs.operators().splitlines()}
    assert [name for name in lines if name[0] not in "o-"] == [op.name for op in OPS]
    for op in OPS:
        for alias in op.aliases:
            assert f"`{alias.op_type}`" in lines[op.name]
            assert all(f"`{domain}`" in lines[op.name] for domain in alias.domains if domain)
        assert TYPE_VARIABLES[op.key][0] in lines[op.name]
        assert ("| V3 |" if op.data_dependent else "| V3, V2 |") in lines[op.name]
        assert (f"`{op.onnx}` (ONNX, where TensorRT lacks it)" in lines[op.name]) is bool(op.onnx)


def test_an_alias_names_its_domains_and_opsets() -> None:
    alias = Alias("Op", ("a", ""), ("x",), "somebody")
    assert generate_docs.alias_text(alias) == "`Op` (`a`, ONNX)"
    assert generate_docs.alias_text(replace(alias, domains=())) == "`Op` (no domain)"
    assert generate_docs.alias_text(replace(alias, opsets=(3, None))) == "`Op` (`a`, ONNX, opset 3 on)"
    assert generate_docs.alias_text(replace(alias, opsets=(3, 5))) == "`Op` (`a`, ONNX, opset 3 to 5)"


def test_every_operator_has_its_pytorch_form() -> None:
    text = generate_docs.torch_operators()
    for op in OPS:
        assert (f"torch.ops.trtsmith.{op.snake_name}(" in text) is (op.torch_reference is not None)
        assert all(f"`{name}` as `{op.name}`" in text for name in op.aten)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.py", '"""One thing. More of it."""\n', "One thing."),
        (
            "a.py",
            '"""One thing\nover two lines, v1.2 of it\n\nMore."""\n',
            "One thing over two lines, v1.2 of it",
        ),
        ("a.py", "x = 1\n", ""),
        ("a.hpp", "// One thing\n// in two lines. More.\n#pragma once\n", "One thing in two lines."),
        ("a.cpp", "#include <a>\n// Not of the file.\n", ""),
    ],
)
def test_a_source_says_what_it_is_in_its_first_sentence(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert generate_docs.first_sentence(path) == said


def test_every_python_module_is_on_the_map() -> None:
    text = "\n".join(part() for part in generate_docs.CONTRIBUTING_PARTS.values())
    for package in ("importers", "converter", "models", "scripts"):
        for path in (generate_docs.ROOT / package).rglob("*.py"):
            if path.name != "__init__.py":
                assert f"`{path.relative_to(generate_docs.ROOT)}`: " in text


def test_figures_come_from_the_record() -> None:
    record = json.loads(generate_docs.REWRITE_RECORD.read_text(encoding="utf-8"))
    record["detector"] |= {"total_seconds": 123.456, "peak_growth_over_model": 9.87}
    text = generate_docs.render_rewrite(record)
    assert "| 123.46 s |" in text
    assert "9.87 times the model" in text
    assert record["machine"]["cpu"] in text
    assert record["within_limits"] is True


def test_engine_tables_count_every_case_and_show_the_output_nearest_to_its_limit() -> None:
    verdicts = ["exact", "tf32", "wrong", "not built", "shapes"]
    tests = [{"case": f"c{i}", "op": "Add" if i else "Abs", "verdict": v} for i, v in enumerate(verdicts)]
    assert engine_tables.node_test_rows(tests) == [
        ("Abs", "1", "1", "0", "0", "0"),
        ("Add", "4", "2", "1", "1", "1"),
    ]
    rules = [{"rule": "r", "example": str(i), "verdict": v} for i, v in enumerate(verdicts[:4])]
    assert engine_tables.rule_rows(rules) == [("r", "4", "2", "1", "2")]
    graphs = [
        {"seed": 7, "verdict": "wrong", "reason": "output 'v3'", "graph": "<...>"},
        {"verdict": "agrees", "graphs": 11, "reason": ""},
        {"verdict": "wrong", "graphs": 1, "reason": "seed 7: a | b"},
    ]
    assert engine_tables.graph_rows(graphs) == [("agrees", "11", ""), ("wrong", "1", "seed 7: a \\| b")]
    far = {
        "network": "n",
        "precision": "fp32",
        "engine": 2e-3,
        "framework": 5e-3,
        "allowed": 1e-2,
        "passed": True,
    }
    near = {**far, "engine": 1e-4, "framework": 6e-5, "allowed": 1.2e-4}
    refused = {"network": "m", "precision": "fp16", "passed": False, "reason": "not built: no importer"}
    assert engine_tables.network_rows([far, near, refused]) == [
        ("n", "fp32", "1.0e-04", "6.0e-05", "agrees"),
        ("m", "fp16", "", "", "not built: no importer"),
    ]
    lost = engine_tables.network_rows([far, {**near, "engine": None, "passed": False}])
    assert lost == [("n", "fp32", "infinite", "6.0e-05", "disagrees")]
    assert engine_tables.network_rows([far, {**near, "passed": False}])[0][-1] == "disagrees"
    loose = {**far, "precision": engine_tables.COMPARED[0], "passed": False}
    assert engine_tables.network_rows([loose])[0][-1] == "disagrees"
    assert engine_tables.networks_said([far, loose]) == "1 of 1 networks agree, in fp32"
    tried = {**far, "precision": "fp16 with a flag that is gone", "passed": False}
    assert engine_tables.networks_said([far, tried]) == "1 of 1 networks agree, in fp32"
    wrong = {**far, "network": "k", "precision": "fp16", "passed": False}
    assert engine_tables.networks_said([far, wrong]) == "1 of 2 networks agree, in fp32, fp16"
    record = {
        "gpu": "G",
        "driver": "1",
        "packages": {"torch": "2", "tensorrt": None, "onnx": "1"},
        "steps": {"onnx-tests": {"summary": "3 of 5", "rows": tests}},
    }
    assert engine_tables.was_done(record, "onnx-tests") and not engine_tables.was_done(record, "networks")
    late = {"steps": {"onnx-tests": {"rows": [{"verdict": "not done"}] * 2}}}
    assert not engine_tables.was_done(late, "onnx-tests")
    page = render_engines(record, "onnx-tests", ("operator", "a", "b", "c", "d", "e"))
    assert page.startswith("G, driver 1, onnx 1, torch 2. 3 of 5.\n\n| operator |") and "| Add | 4 |" in page
    assert "not run" in render_engines(record, "networks", ("network", "p", "e", "f", "v"))


def test_tables_of_the_runner_and_of_planted_errors() -> None:
    case = {"inputs": 2, "arrays": "cupy", "bare_us": 5.04, "infer_us": 8.46, "overhead_us": 3.42}
    assert engine_tables.runner_rows([{"found": {"cases": [case]}}]) == [("2", "cupy", "5.0", "8.5", "3.4")]
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
