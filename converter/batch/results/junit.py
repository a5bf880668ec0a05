"""Writes the results of a batch as JUnit XML: a test suite for each model, a test case for each variant.

There is no standard; this is the form that Ant's task wrote and that Jenkins, GitLab and GitHub's actions read: counts on
the suites, `failure` for a result that is not as it should be, `error` for what came to none, `skipped`, `system-out`.
"""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

from trtsmith.converter.batch.task import TaskStatus

JUNIT = "junit.xml"

PASSED, FAILURE, ERROR, SKIPPED = "passed", "failure", "error", "skipped"

KINDS: Mapping[TaskStatus, str] = {
    TaskStatus.AGREE: PASSED,
    TaskStatus.CONVERTED: PASSED,
    TaskStatus.DISAGREE: FAILURE,
    TaskStatus.REFUSED: FAILURE,
    TaskStatus.INVALID: ERROR,
    TaskStatus.CRASHED: ERROR,
    TaskStatus.TIMEOUT: ERROR,
    TaskStatus.MEMORY: ERROR,
    TaskStatus.LOST: ERROR,
    TaskStatus.CANCELLED: SKIPPED,
}
"""What a status is to a CI system."""

_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 has no way to write (its production Char)."""


def junit_text(document: Mapping[str, Any]) -> str:
    """The XML of a results document. Characters that XML lacks are U+FFFD."""
    suites: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for task in document["tasks"]:
        suites[task["model"]].append(task)
    name = document["title"] or "trtsmith batch"
    root = ElementTree.Element("testsuites", {"name": _xml(name), **_counts(document["tasks"])})
    for model, tasks in suites.items():
        began = min((task["began"] for task in tasks if task["began"]), default="")
        attributes = {"name": _xml(model), **_counts(tasks)}
        suite = ElementTree.SubElement(
            root, "testsuite", attributes | ({"timestamp": _xml(began)} if began else {})
        )
        for task in tasks:
            _case(suite, task)
    ElementTree.indent(root, " ")
    text: str = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def _case(suite: ElementTree.Element, task: Mapping[str, Any]) -> None:
    name = ", ".join(f"{axis} {value}" for axis, value in task["variant"].items()) or task["name"]
    case = ElementTree.SubElement(
        suite,
        "testcase",
        {"name": _xml(name), "classname": _xml(task["model"]), "time": _seconds([task])},
    )
    kind = KINDS[TaskStatus(task["status"])]
    if kind != PASSED:
        said, text = _said(task)
        found = ElementTree.SubElement(case, kind, {"message": _xml(said)})
        if kind != SKIPPED:
            found.set("type", task["status"])
            found.text = _xml(text)
    lines = [f"warning: {warning}" for warning in task["warnings"]]
    lines += [f"from: {task['source']}"] if task["source"] != "run" else []
    lines += [f"command: {shlex.join(task['command'])}"] if task["command"] else []
    if lines:
        ElementTree.SubElement(case, "system-out").text = _xml("\n".join(lines))


def _said(task: Mapping[str, Any]) -> tuple[str, str]:
    """One line, and all that is known, of what kept a task from passing."""
    problems, verdict = task["problems"], task["verdict"]
    text = "\n".join(
        f"{one['what']}\n  where:    {one['where']}\n  expected: {one['expected']}\n  fix:      {one['fix']}"
        for one in problems
    )
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        return f"{task['status']}: {problems[0]['what']}{more}", text
    if verdict and verdict["status"] != "agree":
        wrong = [one for one in verdict["outputs"] if not one["agrees"]]
        lines = [f"{one['output']}{one['at'] and ' at ' + one['at']}: {one['reason']}" for one in wrong]
        lines += [one["why"] for one in verdict["left_out"]]
        return f"{verdict['status']}: {verdict['reason']}", "\n".join(lines)
    return str(task["status"]), text


def _counts(tasks: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    kinds = [KINDS[TaskStatus(task["status"])] for task in tasks]
    return {
        "tests": str(len(tasks)),
        "failures": str(kinds.count(FAILURE)),
        "errors": str(kinds.count(ERROR)),
        "skipped": str(kinds.count(SKIPPED)),
        "time": _seconds(tasks),
    }


def _seconds(tasks: Sequence[Mapping[str, Any]]) -> str:
    return f"{sum(task['seconds'].get('total', 0.0) for task in tasks):.3f}"


def _xml(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
