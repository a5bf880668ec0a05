"""Writes the pages of batches for people and CI systems: index.html, comparisons and junit.xml.

A page is one file, without network requests. Of JUnit XML there is no standard; this is the form that Ant's task wrote and
that Jenkins, GitLab and GitHub's actions read: a test suite for each model, a test case for each variant, counts on the
suites, `failure` for a result that is not as it should be, `error` for what came to none, `skipped`, `system-out`.
"""

from __future__ import annotations

import math
import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from trtsmith.converter.base.output_file import write_whole
from trtsmith.converter.batch.results.diff import ResultsDiff
from trtsmith.converter.batch.results.document import RESULTS, document_text, results_document
from trtsmith.converter.batch.task import TaskStatus
from trtsmith.converter.pages.page import bar, page
from trtsmith.converter.verify.verdict_words import in_words

JUNIT = "junit.xml"

PASSED, FAILURE, ERROR, SKIPPED = "passed", "failure", "error", "skipped"

KINDS: Mapping[TaskStatus, str] = {
    TaskStatus.AGREE: PASSED,
    TaskStatus.CONVERTED: PASSED,
    TaskStatus.DISAGREE: FAILURE,
    TaskStatus.NOT_COMPARABLE: FAILURE,
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
    """Writes the XML of a results document. Characters that XML lacks become U+FFFD."""
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
    lines += [f"verdict: {_verdict(task['verdict'])}"] if task["verdict"] else []
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
        lines += [f"next: {verdict['advice']}"] if verdict["advice"] else []
        return _verdict(verdict), "\n".join(lines)
    return str(task["status"]), text


def _verdict(verdict: Mapping[str, Any]) -> str:
    said = f"{in_words(verdict['status'], verdict['basis'])}: {verdict['reason']}"
    return said if verdict["engine_run"] else f"{said}; the engine itself was not run"


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


INDEX = "index.html"

_ASSETS = Path(__file__).with_name("assets")
_SCRIPTS = ("figures.js", "filters.js", "grid.js", "kinds.js", "details.js", "index.js")

_INDEX_BODY = """\
<main>
<h1 class="head-line"><bdi id="title"></bdi></h1>
<p class="soft" id="written"></p>
<noscript><p>This page needs JavaScript; results.json beside it says the same.</p></noscript>
<section id="summary" aria-label="summary"></section>
<section id="filters" aria-label="filters"></section>
<section id="grid"><h2>Models by variant</h2></section>
<section id="kinds"><h2>Problems and warnings</h2></section>
<section id="tasks"><h2>Tasks</h2></section>
</main>
"""


MOST = 20
"""Outputs, problems, warnings and plugin layers of one task that the page shows: it holds a thousand tasks, and its record
has the rest."""


def index_page(document: Mapping[str, Any]) -> str:
    """Writes the HTML of a results document. Links to files of tasks are relative to the page's folder."""
    title = document["title"] or "trtsmith batch"
    sections = {"summary": "Summary", "grid": "Grid", "kinds": "Problems", "tasks": "Tasks"}
    return page(
        title,
        bar("trtsmith batch", sections) + _INDEX_BODY,
        {
            **document,
            "tasks": [_shown(task) for task in document["tasks"]],
            "not_run": _not_run_note(document["tasks"]),
        },
        styles=[_asset("results.css")],
        scripts=[_asset(name) for name in _SCRIPTS],
    )


def _not_run_note(tasks: Iterable[Mapping[str, Any]]) -> str:
    """Says how many engines ran, which a good verdict does not show; "" if all of them did."""
    runs = [task["verdict"]["engine_run"] for task in tasks if task["verdict"]]
    said = f"{sum(runs)} of {len(runs)} engines ran" if any(runs) else "No engine ran"
    means = "a verdict without a run compares graphs on the CPU. Run trtsmith verify on a machine with a GPU."
    return "" if all(runs) else f"{said}: {means}"


def _shown(task: Mapping[str, Any]) -> dict[str, Any]:
    """What the page has of a task. left_out: how many of its outputs, problems, ... it has not."""
    shown, left_out = dict(task), {}
    del shown["nodes"]
    for name in ("problems", "warnings"):
        shown[name], left_out[name] = _first(task[name])
    if task["verdict"]:
        outputs, left_out["outputs"] = _first(sorted(task["verdict"]["outputs"], key=_badness, reverse=True))
        shown["verdict"] = {**task["verdict"], "outputs": outputs}
    if task["engine"]:
        layers, left_out["plugin_layers"] = _first(task["engine"]["plugin_layers"])
        shown["engine"] = {**task["engine"], "plugin_layers": layers}
    return shown | {"left_out": {name: count for name, count in left_out.items() if count}}


def _first(entries: Sequence[Any]) -> tuple[Sequence[Any], int]:
    return entries[:MOST], max(0, len(entries) - MOST)


def _badness(output: Mapping[str, Any]) -> tuple[bool, float, float]:
    """The worst output is that by which a task is judged: it is never left out."""
    used, relative = (math.inf if output[name] is None else output[name] for name in ("used", "relative"))
    return not output["agrees"], used if not output["agrees"] or output["used"] is not None else 0.0, relative


_DIFF_BODY = """\
<main>
<h1 class="head-line">Differences</h1>
<p class="soft" id="sides"></p>
<noscript><p>This page needs JavaScript; `trtsmith batch diff --json` says the same.</p></noscript>
<section id="summary" aria-label="summary"></section>
<section id="versions"><h2>Changed versions</h2></section>
<section id="tasks"><h2>Tasks</h2></section>
</main>
"""


def diff_page(diff: ResultsDiff) -> str:
    """Writes the HTML of a difference."""
    return page(
        "trtsmith batch diff",
        bar("trtsmith batch diff", {"summary": "Summary", "tasks": "Tasks"}) + _DIFF_BODY,
        diff.to_json(),
        styles=[_asset("results.css")],
        scripts=[_asset("diff.js")],
    )


def write_rows(
    folder: Path,
    rows: Iterable[Mapping[str, Any]],
    *,
    title: str = "",
    planned: int | None = None,
    wall_s: float | None = None,
    warnings: Sequence[str] = (),
) -> None:
    """Writes the files for these entries (task_row) into the existing folder, each completely or not at all.

    It may be called as often as the batch goes on: for 1,000 entries it takes a fraction of a second. A driver keeps these
    instead of the records, which are much larger.

    title, planned, wall_s, warnings: as for results_document.

    OSError where a file cannot be written.
    """
    document = results_document(rows, title=title, planned=planned, wall_s=wall_s, warnings=warnings)
    for name, text in (
        (RESULTS, document_text(document)),
        (JUNIT, junit_text(document)),
        (INDEX, index_page(document)),
    ):
        write_whole(folder / name, text)


@cache
def _asset(name: str) -> str:
    """The text of a style or script of the pages of batches."""
    return (_ASSETS / name).read_text(encoding="utf-8")
