"""What checks a change is said once: the workflow and the hooks call the make targets of .ci/run, and no others."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
TARGETS = re.findall(r"^make (\S+)$", (ROOT / ".ci" / "run").read_text(), flags=re.M)


def test_ci_calls_targets_that_make_has_and_tests_come_last() -> None:
    there = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), flags=re.M)
    assert set(TARGETS) <= set(there) and {"lint", "docs", "check-wheel"} < set(TARGETS)
    assert TARGETS[-1] == "test"


def test_the_workflow_calls_the_same_targets_in_the_same_order() -> None:
    steps = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]["ci"]["steps"]
    assert [step["run"] for step in steps if "run" in step] == [f"make {target}" for target in TARGETS]


def test_the_hooks_call_the_same_targets_and_no_other_repository() -> None:
    repos = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [repo["repo"] for repo in repos] == ["local"]
    assert {hook["entry"] for hook in repos[0]["hooks"]} == {f"make {target}" for target in TARGETS}
