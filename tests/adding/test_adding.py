"""Tests that adding an operator or a rule takes only the files that CONTRIBUTING.md names."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import onnx
import pytest
from onnx import helper

from tests.adding.toys import (
    OPERATOR,
    OPERATOR_LINES,
    ROOT,
    RULE,
    RULE_LINES,
    add,
    copy_checkout,
    run_in,
)


def named_in(section: str, **names: str) -> set[str]:
    """The files in the table of a section of CONTRIBUTING.md, with the names put in."""
    text = (
        (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split(f"\n## {section}\n")[1].split("\n## ")[0]
    )
    found: list[Path] = []
    for cell in re.findall(r"^\| (`.+?`) \|", text, re.MULTILINE):
        for path in re.findall(r"`(.+?)`", cell):
            found.append(found[-1].with_suffix(path) if path.startswith(".") else Path(path))
    paths = {path.as_posix() for path in found}
    for name, value in names.items():
        paths = {path.replace(name, value) for path in paths}
    return paths


def test_the_toys_are_the_files_that_contributing_names() -> None:
    assert {*OPERATOR, *OPERATOR_LINES} == named_in("Add an operator", NAME="local_peaks")
    assert {*RULE, *RULE_LINES} == named_in("Add a rule", NAME="absolute", FAMILY="pointwise")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy with the toys."""
    folder = copy_checkout(tmp_path_factory.mktemp("checkout"))
    add(folder, OPERATOR, OPERATOR_LINES)
    add(folder, RULE, RULE_LINES)
    return folder


def test_the_copy_runs_its_own_modules(checkout: Path) -> None:
    ran = run_in(checkout, "-c", "import trtsmith.importers.registry as r; print(r.__file__)")
    assert Path(ran.stdout.strip()).resolve() == (checkout / "importers" / "registry.py").resolve()


TESTS: Mapping[str, int] = {
    "tests/importers/test_ops.py": 50,
    "tests/importers/test_aliases.py": 30,
    "tests/importers/test_torch_ops.py": 5,
    "tests/test_operator_names.py": 3,
    "tests/scripts/test_gpu_check.py": 2,
    "tests/docs/test_generated.py": 2,
    "tests/converter/rewrite/rules/test_rules.py": 2,
}
"""Tests that know of the toys by their definitions, and how many of each file there are at least."""

SELECTED = (
    "LocalPeaks or (absolute and not build) or operator_alias or pytorch_form or accuracy_step or sanitizer "
    "or the_lists"
)


def test_their_tests_come_from_their_definitions_and_no_test_is_to_be_changed(checkout: Path) -> None:
    ran = run_in(
        checkout, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-p", "no:xdist", *TESTS, "-k", SELECTED
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    passed = Counter(line.split("::")[0] for line in ran.stdout.splitlines() if " PASSED" in line)
    assert [path for path, least in TESTS.items() if passed[path] < least] == [], passed


def test_it_is_listed_with_its_aliases(checkout: Path) -> None:
    ran = run_in(checkout, "-m", "trtsmith", "ops", "--json")
    (entry,) = [entry for entry in json.loads(ran.stdout) if entry["name"] == "LocalPeaks"]
    assert entry["interfaces"] == ["V3"]
    assert [alias["alias"] for alias in entry["aliases"]] == ["signal::FindPeaks"]


def test_a_model_with_it_is_rewritten(checkout: Path, tmp_path: Path) -> None:
    node = helper.make_node("FindPeaks", ["x"], ["at"], name="peaks", domain="signal", flat=1)
    graph = helper.make_graph(
        [node, helper.make_node("Abs", ["x"], ["size"], name="size")],
        "g",
        [helper.make_tensor_value_info("x", 1, ["n"])],
        [helper.make_tensor_value_info("at", 7, ["k"]), helper.make_tensor_value_info("size", 1, ["n"])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("signal", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "m.onnx")
    ran = run_in(
        checkout, "-m", "trtsmith", "rewrite", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "r.onnx")
    )
    assert ran.returncode == 0, ran.stderr
    nodes = onnx.load(tmp_path / "r.onnx").graph.node
    assert [(n.domain, n.op_type) for n in nodes] == [("trtsmith", "LocalPeaks"), ("", "Neg"), ("", "Max")]
    assert {a.name: helper.get_attribute_value(a) for a in nodes[0].attribute}["plateaus"] == 1


def test_the_generator_writes_its_documents(checkout: Path) -> None:
    twice = "import sys, generate_docs as docs; sys.exit(docs.main([]) or docs.main(['--check']))"
    ran = run_in(checkout, "-c", twice)
    assert ran.returncode == 0, ran.stderr
    assert "### LocalPeaks" in (checkout / "docs" / "reference" / "operators.md").read_text(encoding="utf-8")
