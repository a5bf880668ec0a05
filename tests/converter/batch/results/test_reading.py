"""results.json from elsewhere is read unchanged, or refused in four parts."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.converter.batch.results.sample import HOSTILE_NAMES, record, times, write_results
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.batch.results.diff import diff_results
from trtsmith.converter.batch.results.document import load_results
from trtsmith.converter.batch.results.pages import diff_page
from trtsmith.converter.batch.task import TaskStatus
from trtsmith.converter.cli.reports.batch_diff import render


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("whole")
    records = [record(name, bench=times()) for name in HOSTILE_NAMES]
    write_results(folder, [*records, record("refused", TaskStatus.REFUSED)], title=HOSTILE_NAMES[0])
    return (folder / "results.json").read_text()


@pytest.fixture
def written(whole: str, tmp_path: Path) -> Path:
    (tmp_path / "results.json").write_text(whole)
    return tmp_path


def test_names_come_back(written: Path) -> None:
    found = load_results(written)
    assert set(found.by_name) == {*HOSTILE_NAMES, "refused"} and found.title == HOSTILE_NAMES[0]
    assert found.by_name["refused"].status is TaskStatus.REFUSED and found.by_name["refused"].engine is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "No such file or directory"),
        ("", "JSONDecodeError"),
        ("[]", "TypeError: [] is not an object"),
        ("{}", "missing required field `schema`"),
        ('{"schema": 2}', "$.schema"),
        ('{"schema": 1, "tasks": {}}', "$.tasks"),
        ('{"schema": 1, "tasks": [1]}', "$.tasks[0]"),
        ("[" * 100_000, "RecursionError"),
        ('{"schema": ' + "9" * 5000 + "}", "ValueError"),
        ("\xff", "UnicodeDecodeError"),
    ],
)
def test_a_file_that_is_no_result_is_refused_in_four_parts(
    tmp_path: Path, text: str | None, words: str
) -> None:
    if text is not None:
        (tmp_path / "results.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError) as caught:
        load_results(tmp_path)
    (problem,) = caught.value.problems
    assert words in problem.what and len(problem.what) < 400
    assert problem.where == str(tmp_path / "results.json")
    assert "trtsmith batch" in problem.expected and "correct the path" in problem.fix


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda task: task.update(status="fine"), "Invalid enum value 'fine' - at `$.tasks[0].status`"),
        (lambda task: task.pop("verdict"), "missing required field `verdict`"),
        (
            lambda task: task["engine"].update(bytes="1"),
            "Expected `int`, got `str` - at `$.tasks[0].engine.bytes`",
        ),
        (lambda task: task["engine"].update(bytes=-1), "$.tasks[0].engine.bytes"),
        (lambda task: task["engine"].update(bytes=True), "$.tasks[0].engine.bytes"),
        (lambda task: task["bench"]["runs"][0]["latency_ms"].update(median=0), "a latency of"),
        (lambda task: task["bench"]["runs"][0]["latency_ms"].update(p90=0.1), "a latency of"),
        (lambda task: task.update(name=1), "Expected `str`, got `int` - at `$.tasks[0].name`"),
        (lambda task: task.update(name="refused"), "two of its tasks have one name"),
        (
            lambda task: task["verdict"]["outputs"][0].update(relative=float("nan")),
            "$.tasks[0].verdict.outputs[0].relative",
        ),
    ],
)
def test_an_entry_that_is_none_is_refused(written: Path, change: Any, words: str) -> None:
    path = written / "results.json"
    document = json.loads(path.read_text())
    change(document["tasks"][0])
    path.write_text(json.dumps(document))
    with pytest.raises(UsageError) as caught:
        load_results(path)
    assert words in caught.value.problems[0].what


@pytest.mark.parametrize("seed", range(300))
def test_a_spoilt_file_is_read_or_refused_and_nothing_else(written: Path, seed: int) -> None:
    draw = random.Random(seed)
    path = written / "results.json"
    path.write_text(json.dumps(spoilt(json.loads(path.read_text()), draw)))
    try:
        found = load_results(path)
    except UsageError:
        return
    diff = diff_results(found, found)
    assert not diff.changed
    assert render(diff) and diff_page(diff)


def spoilt(document: Any, draw: random.Random) -> Any:
    """The document with a part or two that are something else, or missing."""
    junk: tuple[Any, ...] = (None, True, -1, 1e308, 10**400, "x", "\ud800", [], {}, [1], {"a": 1})
    if draw.random() < 0.002:
        return draw.choice(junk)
    if isinstance(document, dict):
        return {name: spoilt(one, draw) for name, one in document.items() if draw.random() > 0.0005}
    return [spoilt(one, draw) for one in document] if isinstance(document, list) else document
