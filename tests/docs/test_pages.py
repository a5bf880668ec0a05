"""Faults that mkdocs misses: links outside of the site, Python on pages, promises, targets of CI, entries of results."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from trtsmith.converter.batch.results.diff import SCHEMA_FILE as DIFF_SCHEMA
from trtsmith.converter.batch.results.document import SCHEMA_FILE
from trtsmith.converter.batch.results.pages import KINDS
from trtsmith.converter.batch.task import TaskStatus
from trtsmith.converter.verify.verdict import STATUSES

ROOT = Path(__file__).resolve().parents[2]
BESIDE = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
PAGES = [*(ROOT / name for name in BESIDE), *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]


@pytest.mark.parametrize("name", BESIDE)
def test_links_lead_to_files_and_headings(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, heading = target.partition("#")
        page = ROOT / (path or name)
        assert page.is_file(), target
        assert not heading or heading in headings(page), target


def headings(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    found = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.M)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in found}


@pytest.mark.parametrize(("name", "most"), [("README.md", 120), ("CONTRIBUTING.md", 200)])
def test_what_newcomers_read_is_short(name: str, most: int) -> None:
    assert len((ROOT / name).read_text(encoding="utf-8").splitlines()) <= most


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_python_that_a_page_shows_is_python_and_imports_what_there_is(page: Path) -> None:
    for code in re.findall(
        r"^```python[^\n]*\n(.*?)^```$", page.read_text(encoding="utf-8"), flags=re.M | re.S
    ):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "trtsmith":
                exec(ast.unparse(node), {})  # an import alone, which raises ImportError


def extras() -> set[str]:
    project = (ROOT / "pyproject.toml").read_text().partition("[project.optional-dependencies]")[2]
    return set(re.findall(r"^(\w+) = \[", project.partition("\n[")[0], flags=re.M))


def test_the_quick_start_lists_every_extra() -> None:
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / "docs" / "quickstart.md").read_text(), flags=re.M)
    assert len(extras()) > 9 and extras() <= set(re.findall(r"`(\w+)`", " ".join(rows)))


def test_what_pages_and_messages_install_is_an_extra() -> None:
    texts = [*PAGES, *(ROOT / "converter").rglob("*.py"), *(ROOT / "importers").rglob("*.py")]
    named = re.findall(
        r"(?:trtsmith|\.whl\)?|\.)\[([a-z]+(?:,[a-z]+)*)\]['\"]", "\n".join(t.read_text() for t in texts)
    )
    assert len(named) > 20 and {extra for names in named for extra in names.split(",")} <= extras()


SECURITY = " ".join((ROOT / "SECURITY.md").read_text().split())
NOT_PROMISED = re.compile(r"What is not promised:.*?A saved PyTorch program")
PROMISES = re.findall(
    r"\*\*([^*:]+)\.\*\*", NOT_PROMISED.sub("", SECURITY.partition("## What is promised")[2])
)
ADVICE = "Load engines only from people whose programs you would run"
TESTS = [
    name
    for path in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"^def test_(\w+)", path.read_text(), flags=re.M)
]


@pytest.mark.parametrize("promise", [promise for promise in PROMISES if promise != ADVICE])
def test_a_promise_is_the_name_of_a_test(promise: str) -> None:
    words = re.sub(r"\W+", "_", promise.lower()).strip("_")
    assert any(name.startswith(words) for name in TESTS), words


def test_promises_are_found() -> None:
    assert ADVICE in PROMISES and len(PROMISES) >= 10


TARGETS = re.findall(r"^(?:if )?make ([a-z-]+)", (ROOT / ".ci" / "run").read_text(), flags=re.M)


def test_ci_calls_targets_that_make_has_and_tests_come_last() -> None:
    there = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), flags=re.M)
    assert set(TARGETS) <= set(there) and {"lint", "docs", "check-wheel"} < set(TARGETS)
    assert TARGETS[-1] == "test"


def test_the_workflow_calls_the_same_targets_in_the_same_order_and_runs_every_test() -> None:
    steps = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]["ci"]["steps"]
    wanted = [*TARGETS[:-1], "test-all"]
    assert [step["run"] for step in steps if "run" in step] == [f"make {target}" for target in wanted]


def test_a_release_is_made_by_targets_that_run_anywhere() -> None:
    job = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())["jobs"]["wheel"]
    assert [step["run"] for step in job["steps"] if "run" in step] == [
        "make release PLATFORM=${{ matrix.platform }}"
    ]
    assert re.search(r"^release:.*## ", (ROOT / "Makefile").read_text(), flags=re.M)
    used = {step["uses"].split("@")[0] for step in job["steps"] if "uses" in step}
    assert {"actions/attest-build-provenance", "actions/attest-sbom"} <= used


def test_the_hooks_call_the_same_targets_and_no_other_repository() -> None:
    repos = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [repo["repo"] for repo in repos] == ["local"]
    checks = set(TARGETS) - {"programs"}  # which installs, and checks nothing
    assert {hook["entry"] for hook in repos[0]["hooks"]} == {f"make {target}" for target in checks}


def test_every_status_of_a_verdict_leads_to_an_action() -> None:
    text = (ROOT / "docs/guides/verify-and-locate.md").read_text(encoding="utf-8")
    rows = text.partition("## From verdict to action")[2].partition("## ")[0]
    assert {status.strip() for status in re.findall(r"^\| `([a-z ]+)[`(]", rows, flags=re.M)} >= set(STATUSES)


RESULTS = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "batch-results.md").read_text(
    encoding="utf-8"
)


def names(schema: dict[str, Any]) -> set[str]:
    """Every entry that the schema has, at any depth."""
    found = set(schema.get("properties", {}))
    parts = [
        *schema.get("properties", {}).values(),
        *schema.get("anyOf", ()),
        schema.get("items"),
        schema.get("additionalProperties"),
    ]
    return found.union(*(names(part) for part in parts if isinstance(part, dict)))


def test_every_entry_of_the_schemas_is_described() -> None:
    described = set(re.findall(r"`([a-z0-9_]+)`", RESULTS))
    schema = set().union(
        *(names(json.loads(file.read_text(encoding="utf-8"))) for file in (SCHEMA_FILE, DIFF_SCHEMA))
    )
    assert len(schema) > 60 and schema <= described


def test_every_status_stands_in_the_table_with_what_it_is_to_junit() -> None:
    rows = dict(re.findall(r"^\| `([a-z ]+)` \| [^|]+ \| ([a-z]+) \|$", RESULTS, flags=re.M))
    assert rows == {status.value: KINDS[status] for status in TaskStatus}
