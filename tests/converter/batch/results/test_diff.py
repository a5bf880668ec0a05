"""Better, worse and different results between two batches, rule by rule and in both directions."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from tests.converter.batch.results.sample import (
    HOSTILE_NAMES,
    PROBLEM,
    VERSIONS,
    record,
    report,
    times,
    write_pair,
    zoo,
)
from trtsmith.converter.batch.results.diff import (
    BETTER,
    DIFFERENT,
    SCHEMA_FILE,
    WORSE,
    Change,
    ResultsDiff,
    diff_results,
)
from trtsmith.converter.batch.results.document import load_results
from trtsmith.converter.batch.task import TaskRecord, TaskStatus

VALIDATOR = jsonschema.Draft202012Validator(json.loads(SCHEMA_FILE.read_text(encoding="utf-8")))

OPPOSITE = {WORSE: BETTER, BETTER: WORSE, DIFFERENT: DIFFERENT}


def diff_of(tmp_path: Path, old: Sequence[TaskRecord], new: Sequence[TaskRecord]) -> ResultsDiff:
    """Through the files, as people do."""
    write_pair(tmp_path, old, new)
    return diff_results(load_results(tmp_path / "old"), load_results(tmp_path / "new" / "results.json"))


def changes(tmp_path: Path, old: TaskRecord, new: TaskRecord) -> list[tuple[str, str]]:
    """(aspect, mark) of one task that changed; and the other way round everything is the other way round."""
    there, back = diff_of(tmp_path, [old], [new]), diff_of(tmp_path, [new], [old])
    found = [(change.aspect, change.mark) for task in there.changed for change in task.changes]
    returned = [(change.aspect, OPPOSITE[change.mark]) for task in back.changed for change in task.changes]
    assert sorted(found) == sorted(returned)
    return found


def one_change(tmp_path: Path, old: TaskRecord, new: TaskRecord) -> Change:
    (task,) = diff_of(tmp_path, [old], [new]).changed
    (change,) = task.changes
    return change


A = record("a", bench=times())


def test_a_result_does_not_differ_from_itself(tmp_path: Path) -> None:
    records = [*zoo(5), *(record(name) for name in HOSTILE_NAMES)]
    diff = diff_of(tmp_path, records, records)
    assert not diff.changed and not diff.versions and not diff.added and not diff.gone
    assert diff.same == len(records)


@pytest.mark.parametrize("old", list(TaskStatus))
@pytest.mark.parametrize("new", list(TaskStatus))
def test_a_status_is_worse_where_what_passed_does_not(
    tmp_path: Path, old: TaskStatus, new: TaskStatus
) -> None:
    found = dict(changes(tmp_path, *(record("a", one, report=None, problems=()) for one in (old, new))))
    if old is new:
        assert not found
    elif TaskStatus.CANCELLED in (old, new) or old.passed == new.passed:
        assert found == {"status": DIFFERENT}
    else:
        assert found == {"status": WORSE if old.passed else BETTER}


def test_not_comparable_is_better_than_disagree(tmp_path: Path) -> None:
    def disagreeing(status: str) -> TaskRecord:
        verdict = {"status": status, "reason": "", "engine_run": True, "inputs": "", "comparisons": []}
        return record("a", TaskStatus.DISAGREE, report=report(verdict=verdict))

    assert changes(tmp_path, disagreeing("disagree"), disagreeing("not comparable")) == [("verdict", BETTER)]


@pytest.mark.parametrize(
    ("old", "new", "mark"),
    [
        (0.2, 0.39, None),
        (0.2, 0.41, WORSE),
        (0.001, 0.0099, None),  # both far below the tolerance
        (0.001, 0.019, None),
        (0.001, 0.021, WORSE),
        (0.0, 0.5, WORSE),
    ],
)
def test_an_error_is_another_beyond_a_factor_of_the_share_of_its_tolerance(
    tmp_path: Path, old: float, new: float, mark: str | None
) -> None:
    sides = [record("a", report=report(used=used, relative=used)) for used in (old, new)]
    assert changes(tmp_path, *sides) == ([("error", mark)] if mark else [])


def test_an_error_without_a_tolerance_is_judged_by_that_of_its_type(tmp_path: Path) -> None:
    def with_error(relative: float) -> TaskRecord:
        return record("a", report=report(used=None, relative=relative))

    assert changes(tmp_path, with_error(1e-7), with_error(1.9e-6)) == []  # below 2 % of 1e-4
    assert changes(tmp_path, with_error(1e-7), with_error(2.1e-6)) == [("error", WORSE)]


def test_an_output_that_disagrees_is_worse_whatever_its_figure(tmp_path: Path) -> None:
    old = record("a", report=report(used=0.99, relative=1e-4, outputs=3))
    wrong = report(used=None, relative=math.inf, agrees=False, outputs=3)
    new = record("a", TaskStatus.DISAGREE, report=wrong)
    assert changes(tmp_path, old, new) == [("status", WORSE), ("error", WORSE)]
    (task,) = diff_of(tmp_path, [old], [new]).changed
    assert task.changes[1].new == "y0: infinite, disagrees" and task.changes[1].note == "and 2 more"
    assert task.changes[1].items == ("y0", "y1", "y2") and task.mark == WORSE


def test_errors_of_engines_and_of_graphs_are_not_compared(tmp_path: Path) -> None:
    engine = report(used=0.9)
    engine["verdict"]["engine_run"] = True
    assert changes(tmp_path, record("a"), record("a", report=engine)) == [("compared", DIFFERENT)]


def test_outputs_that_only_one_compared_are_named(tmp_path: Path) -> None:
    change = one_change(tmp_path, *(record("a", report=report(outputs=count)) for count in (1, 3)))
    assert (change.aspect, change.mark, change.items) == ("outputs compared", DIFFERENT, ("y1", "y2"))


@pytest.mark.parametrize(
    ("size", "mark"), [(1_009_000, None), (1_011_000, WORSE), (991_000, None), (985_000, BETTER)]
)
def test_sizes_differ_beyond_one_percent(tmp_path: Path, size: int, mark: str | None) -> None:
    sides = [record("a", report=report(size=one)) for one in (1_000_000, size)]
    found = changes(tmp_path, *sides)
    assert found == ([("engine size", mark)] if mark else [])


@pytest.mark.parametrize(
    ("old", "new", "judged"),
    [
        ((1.0, 1.001), (1.029, 1.03), []),  # beyond the 90th percentile, but no more than two runs differ
        ((1.0, 1.001), (1.031, 1.04), [("latency", WORSE)]),
        ((1.0, 1.2), (1.15, 1.3), []),  # within what one run shows
        ((1.0, 1.2), (1.21, 1.3), [("latency", WORSE)]),
        ((1.21, 1.3), (1.0, 1.2), [("latency", BETTER)]),
        ((1.0, 1.0), (1.0, 1.0), []),
    ],
)
def test_latencies_differ_beyond_noise_within_a_run_and_between_runs(
    tmp_path: Path, old: tuple[float, float], new: tuple[float, float], judged: list[tuple[str, str]]
) -> None:
    sides = [record("a", bench=times(*pair)) for pair in (old, new)]
    assert changes(tmp_path, *sides) == judged


def test_latencies_are_compared_where_the_same_was_timed(tmp_path: Path) -> None:
    slower = record("a", bench=times(2.0))
    assert changes(tmp_path, A, slower) == [("latency", WORSE)]
    assert one_change(tmp_path, A, slower).note == "+33.3%, opt images 1x3x64x64"
    for changed in (
        {"cuda_graph": True},
        {"streams": 2},
        {"transfers": False},
        {"shapes": {"images": [2]}},
        {"point": "max"},
    ):
        assert changes(tmp_path, A, record("a", bench=times(2.0, **changed))) == []
    assert changes(tmp_path, A, record("a", bench=times(2.0) | {"gpu": "NVIDIA T4"})) == [("GPU", DIFFERENT)]
    assert changes(tmp_path, A, record("a")) == [("latency", DIFFERENT)]
    driver = diff_of(tmp_path, [A], [record("a", bench=times() | {"driver": "590.2"})])
    assert [(one.package, one.old, one.new) for one in driver.versions] == [("GPU driver", "580.1", "590.2")]


def test_warnings_are_the_same_where_only_numbers_and_folders_differ(tmp_path: Path) -> None:
    def warned(folder: str, *warnings: str) -> TaskRecord:
        return record(
            "a", warnings=warnings, command=("trtsmith", "convert", f"{folder}/net.onnx", "-o", "model.plan")
        )

    old = warned("/zoo/monday", "took 3.5 s: /zoo/monday/net.onnx", "stays")
    assert changes(tmp_path, old, warned("/tmp/x", "took 1e+02 s: /tmp/x/net.onnx", "stays")) == []
    found = one_change(
        tmp_path, old, warned("/zoo/monday", "took 4 s: /zoo/monday/net.onnx", "stays", "x", "y")
    )
    assert (found.mark, found.new, found.items) == (WORSE, "x", ("x", "y"))
    assert changes(tmp_path, old, warned("/zoo/monday", "stays", "x")) == [
        ("warnings", WORSE),
        ("warnings", BETTER),
    ]


def test_routes_that_changed_name_the_nodes(tmp_path: Path) -> None:
    nodes = [{"name": "/a", "route": "plugin"}, {"name": "/b", "route": "rewritten"}]
    other = [{"name": "/a", "route": "native"}, {"name": "/b", "route": "plugin"}]
    old = record("a", report=report(nodes=nodes, routes={"plugin": 1, "rewritten": 1}))
    new = record("a", report=report(nodes=other, routes={"plugin": 1, "native": 1}))
    change = one_change(tmp_path, old, new)
    assert (change.mark, change.old, change.new) == (DIFFERENT, "1 plugin, 1 rewritten", "1 native, 1 plugin")
    assert change.items == ("/a: plugin -> native or not there", "/b: rewritten -> plugin")
    without = report(routes={"native": 8})
    without["engine"]["plugin_layers"] = []
    change = one_change(tmp_path, record("a"), record("a", report=without))
    assert change.items == ("/neck/dcn: plugin -> native or not there",)


def test_other_options_and_other_problems_are_different(tmp_path: Path) -> None:
    other = record("a", command=("trtsmith", "convert", "/elsewhere/a.onnx", "--fp16"))
    assert changes(tmp_path, record("a"), other) == [("options", DIFFERENT)]
    problem = replace(PROBLEM, what="no importer for operator acme::Gate")
    refused, other = record("a", TaskStatus.REFUSED), record("a", TaskStatus.REFUSED, problems=(problem,))
    assert changes(tmp_path, refused, other) == [("problems", DIFFERENT)]


def test_tasks_that_died_say_nothing_of_versions(tmp_path: Path) -> None:
    died = record("a", TaskStatus.TIMEOUT, versions={})
    assert not diff_of(tmp_path, [record("a")], [died]).versions
    assert not diff_of(tmp_path, [died], [record("a")]).versions


def test_versions_are_told_once_and_tasks_of_one_side_are_neither(tmp_path: Path) -> None:
    newer = VERSIONS | {"tensorrt_rtx": "1.8"}
    old = [record(name) for name in ("a", "b", "gone")]
    new = [record("a", versions=newer), record("b"), record("new", TaskStatus.CRASHED)]
    diff = diff_of(tmp_path, old, new)
    assert [(one.old, one.new) for one in diff.versions] == [("1.7.1.116", "1.7.1.116, 1.8")]
    assert (diff.added, diff.gone, diff.same, diff.changed) == ({"new": "crashed"}, {"gone": "agree"}, 2, ())
    none = dict.fromkeys(("worse", "better", "different"), 0)
    assert diff.to_json()["summary"] == none | {"new": 1, "gone": 1, "same": 2}


def test_a_model_without_variants_is_the_one_that_a_matrix_calls_default(tmp_path: Path) -> None:
    plain = record("net")
    default = record("net/default", variant={"precision": "default"}, command=plain.command)
    half = record("net/fp16", variant={"precision": "fp16"})
    diff = diff_of(tmp_path, [plain], [default, half])
    assert (diff.same, diff.changed, diff.gone, list(diff.added)) == (1, (), {}, ["net/fp16"])
    worse = replace(plain, warnings=("one more",))
    (task,) = diff_of(tmp_path, [default, half], [worse]).changed
    assert (task.name, task.mark) == ("net/default", WORSE)
    several = [
        record(
            f"net/{target}-default",
            variant={"target": target, "precision": "default"},
            command=plain.command,
        )
        for target in ("sm86", "default")
    ]
    assert diff_of(tmp_path, [plain], several).same == 1
    without = diff_of(tmp_path, [plain], several[:1])
    assert (without.same, list(without.gone), list(without.added)) == (0, ["net"], ["net/sm86-default"])


@pytest.mark.parametrize("seed", range(5))
def test_two_zoos_differ_the_other_way_round(tmp_path: Path, seed: int) -> None:
    old, new = list(zoo(4, seed)), list(zoo(4, seed + 100))
    there, back = diff_of(tmp_path, old, new), diff_of(tmp_path, new, old)
    assert there.changed and {task.name for task in there.changed} == {task.name for task in back.changed}
    found = [(t.name, c) for t in there.changed for c in t.changes if c.aspect != "status"]
    returned = [(t.name, c) for t in back.changed for c in t.changes if c.aspect != "status"]
    forth = {(name, c.aspect, c.mark, c.old, c.new) for name, c in found}
    assert forth == {(name, c.aspect, OPPOSITE[c.mark], c.new, c.old) for name, c in returned}
    VALIDATOR.validate(there.to_json())
    order = [task.mark for task in there.changed]
    assert order == sorted(order, key=(WORSE, BETTER, DIFFERENT).index)


def test_the_worst_of_a_task_is_its_mark(tmp_path: Path) -> None:
    new = record("a", report=report(size=900_000, warnings=["w"], used=0.01, relative=1e-6))
    (task,) = diff_of(tmp_path, [record("a")], [new]).changed
    assert {change.mark for change in task.changes} == {WORSE, BETTER} and task.mark == WORSE
