"""The deciding parts of the GPU checks: errors, limits, time boxes, parsing, the record. None needs a GPU."""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import gpu_check
from gpucheck import commands, kernels, metrics, references, sanitizer
from gpucheck.record import Notes, StepResult, passed_before, read_notes, table, write_record
from harness.processes import Clock, Ended, run_boxed
from tests.importers.foreign import HUGE, HugeCase
from tests.processes import has_ended
from trtsmith.converter.plugin import cases as plugin_cases
from trtsmith.converter.plugin import machine
from trtsmith.converter.plugin.machine import slug, visible_gpus
from trtsmith.importers.registry import OPS, by_name


def test_relative_error_is_that_of_the_norms() -> None:
    assert metrics.relative_error(np.array([3.0, 4.5]), np.array([3.0, 4.0])) == pytest.approx(0.1)
    assert metrics.relative_error(np.array([0.25, 0.0]), np.zeros(2)) == 0.25
    assert metrics.relative_error(np.zeros((0, 2)), np.zeros((0, 2))) == 0.0
    half = np.array([1.0], ml_dtypes.bfloat16)
    assert metrics.relative_error(half, np.array([1.0])) == 0.0


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([np.nan, 1.0], [1.0, 1.0]),
        ([1.0, 1.0], [np.nan, 1.0]),
        ([np.inf, 1.0], [-np.inf, 1.0]),
        ([1.0], [1.0, 1.0]),
    ],
)
def test_what_is_not_finite_on_one_side_is_infinitely_wrong(
    found: list[float], expected: list[float]
) -> None:
    assert metrics.relative_error(np.array(found), np.array(expected)) == np.inf


def test_equal_infinities_and_nans_are_no_error() -> None:
    strange = np.array([np.nan, np.inf, 2.0])
    assert metrics.relative_error(strange, strange) == 0.0


def test_allowed_error_is_twice_the_framework_or_rounding() -> None:
    assert metrics.allowed_error(1e-6, 1e-8, 1000, "float32") == 2e-6
    assert metrics.allowed_error(0.0, 3e-4, 1000, "float16") == 6e-4
    assert metrics.allowed_error(None, 3e-4, 1000, "float16") == 6e-4
    assert metrics.allowed_error(0.0, 0.0, 1, "bfloat16") == 2 * 2.0**-8


def test_rounding_one_number_is_within_a_unit_of_roundoff() -> None:
    for dtype, unit in metrics.UNIT_ROUNDOFF.items():
        names = {"bfloat16": ml_dtypes.bfloat16, "tf32": np.float16}  # TF32 has float16's significand
        kind = np.dtype(names.get(dtype, dtype))
        exact = np.float64(1) + unit * 0.999
        assert metrics.relative_error(np.array([exact], kind), np.array([exact])) <= unit


def test_clock_gives_no_step_more_than_is_left() -> None:
    clock = Clock.of(10)
    assert clock.box(4) == 4
    assert 9 < (clock.box(60) or 0) <= 10
    assert Clock.of(1).box(60) is None


def test_a_command_is_ended_with_its_children() -> None:
    parent = "import subprocess; child = subprocess.Popen(['sleep', '60']); print(child.pid, flush=True); child.wait()"
    ended = run_boxed([sys.executable, "-c", parent], 3.0)
    assert ended.code is None and ended.problem == "took longer than 3 s and was ended"
    assert has_ended(int(ended.output))


def test_the_end_of_a_command_is_told() -> None:
    assert run_boxed([sys.executable, "-c", "print(1)"], 20).problem is None
    failed = run_boxed([sys.executable, "-c", "import sys; print('why'); sys.exit(3)"], 20)
    assert failed.problem == "exited with code 3: why"
    killed = run_boxed([sys.executable, "-c", "import os; os.abort()"], 20)
    assert killed.problem is not None and killed.problem.startswith("died of SIGABRT")


def test_notes_survive_a_kill_in_the_middle_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "step.jsonl"
    notes = Notes(path)
    notes.row(case="a", error=1.23456e-7)
    with path.open("a") as file:
        file.write('{"row": {"case"')
    result = read_notes(path, "step", "ended with signal 9: ")
    assert result.rows == [{"case": "a", "error": 1.23e-7}]
    assert (result.verdict, result.failures) == ("fail", ["ended with signal 9: "])


def test_a_step_passes_only_with_its_summary_and_without_failures(tmp_path: Path) -> None:
    path = tmp_path / "step.jsonl"
    assert read_notes(path, "step", None).verdict == "fail"
    notes = Notes(path)
    notes.row(case="a")
    assert read_notes(path, "step", None).failures == ["the step ended without its summary"]
    notes.summary("1 case")
    assert read_notes(path, "step", None).verdict == "pass"
    notes.failure("wrong")
    assert read_notes(path, "step", None).verdict == "fail"


def test_record_is_json_with_one_row_a_line(tmp_path: Path) -> None:
    path = tmp_path / "new" / "check.json"
    steps = [
        StepResult("one", "pass", "fine", 1.26, rows=[{"a": 1}, {"a": 2}]),
        StepResult("two", "fail", "not fine", failures=[str(i) for i in range(50)]),
    ]
    write_record(path, {"gpu": "G", "packages": {"numpy": "2"}}, steps)
    text = path.read_text()
    read = json.loads(text)
    assert read["gpu"] == "G" and list(read["steps"]) == ["one", "two"]
    assert read["steps"]["one"]["rows"] == [{"a": 1}, {"a": 2}] and read["steps"]["one"]["seconds"] == 1.3
    assert read["steps"]["two"]["failures"] == 50 and len(read["steps"]["two"]["first_failures"]) == 40
    assert '\n        {"a": 2}\n' in text
    assert list(path.parent.iterdir()) == [path]


def test_what_passed_is_kept_for_the_same_gpu_and_code_alone(tmp_path: Path) -> None:
    path, head = tmp_path / "check.json", {"gpu": "G", "rests_on": {"kernels": "a1"}}
    passed = StepResult("one", "pass", "fine", 1.2, rows=[{"a": 1}])
    write_record(path, head, [passed, StepResult("two", "fail", "took longer than 1 s", failures=["x"])])
    assert passed_before(path, head) == {"one": passed}
    assert passed_before(path, head | {"rests_on": {"kernels": "b2"}}) == {}
    assert passed_before(tmp_path / "none.json", head) == {}


def test_table_ends_with_a_line_for_each_step() -> None:
    lines = table(
        [StepResult("one", "pass", "fine"), StepResult("eleven", "fail", "no", failures=["x"])]
    ).splitlines()
    assert lines == ["eleven: x", "one     pass        0.0 s  fine", "eleven  fail        0.0 s  no"]


MEMCHECK = "========= COMPUTE-SANITIZER\n240 kernels ran, 0 wrong\n========= ERROR SUMMARY: {} errors\n"
RACES = (
    "240 kernels ran, 0 wrong\n========= RACECHECK SUMMARY: {} hazards displayed ({} errors, 0 warnings)\n"
)
PLAIN, PLANTED = sanitizer.TOOLS[0], sanitizer.TOOLS[-1]


def ended(output: str, code: int | None = 0) -> Ended:
    return Ended(code, output, 1.0, None if code == 0 else f"ended with exit code {code}")


@pytest.mark.parametrize(
    ("output", "code"),
    [
        (MEMCHECK.format(2), 9),
        (MEMCHECK.format(0), 1),
        (RACES.format(1, 1), 9),
        ("240 kernels ran, 0 wrong\n", 0),  # the tool did not speak
        ("0 kernels ran, 0 wrong\n========= ERROR SUMMARY: 0 errors\n", 0),
        ("========= ERROR SUMMARY: 0 errors\n", 0),
        ("========= ERROR SUMMARY: 0 errors\n", None),
    ],
)
def test_sanitizer_fails_for_findings_and_for_runs_that_prove_nothing(output: str, code: int | None) -> None:
    assert sanitizer.judge(PLAIN, Ended(code, output, 1.0, "ended badly" if code != 0 else None))


def test_sanitizer_passes_a_clean_run_and_demands_the_planted_fault() -> None:
    assert sanitizer.judge(PLAIN, ended(MEMCHECK.format(0))) is None
    assert sanitizer.judge(PLAIN, ended(RACES.format(0, 0))) is None
    assert PLANTED.fault is not None
    assert sanitizer.judge(PLANTED, ended(MEMCHECK.format(3), 9)) is None
    assert "not found" in (sanitizer.judge(PLANTED, ended(MEMCHECK.format(0))) or "")
    assert sanitizer.summary_line(MEMCHECK.format(3)) == "ERROR SUMMARY: 3 errors"


@pytest.mark.parametrize(
    ("gpu", "folder"),
    [("NVIDIA H200", "h200"), ("NVIDIA GeForce RTX 4090", "geforce-rtx-4090"), ("", "unknown")],
)
def test_folder_of_a_gpu(gpu: str, folder: str) -> None:
    assert slug(gpu) == folder


def test_a_reference_is_asked_once_for_each_case_and_dtype() -> None:
    op = next(op for op in OPS if op.tolerance)
    asked: list[tuple[str, str]] = []

    def count(op, case, dtype, inputs):  # type: ignore[no-untyped-def]
        asked.append((case.name, dtype))
        return {port.name: np.zeros(1) for port in op.outputs}

    made = list(plugin_cases.gpu_cases(op.name, large=False, reference=count))
    assert len(asked) == len(set(asked)) == 3 * sum(not case.large for case in op.cases)
    assert len(made) == len(asked) * len(plugin_cases.type_choices(op)) // 3


def test_stored_references_are_those_that_would_be_computed(tmp_path: Path) -> None:
    op = next(op for op in OPS if op.tolerance)
    case = next(case for case in op.cases if case.name == "odd")
    for dtype in {types[op.key] for types in plugin_cases.type_choices(op)}:
        references._compute(tmp_path, op.name, case.name, dtype)
    generated = case.inputs(np.random.default_rng(plugin_cases.SEED))
    for types in plugin_cases.type_choices(op):
        inputs = plugin_cases.cast_inputs(op, generated, types)
        stored = references.reader(tmp_path)(op, case, types[op.key], inputs)
        for name, array in op.reference(case.fields, inputs).items():
            np.testing.assert_array_equal(stored[name], array)
    (tmp_path / f"{op.name}-odd-float32.npz").write_bytes(b"")
    with pytest.raises(EOFError):  # so the files are read
        references.reader(tmp_path)(op, case, "float32", inputs)


def test_what_the_accuracy_step_leaves_out_is_compared_by_others() -> None:
    def nothing(op, case, dtype, inputs):  # type: ignore[no-untyped-def]  # references take seconds
        return {port.name: np.zeros(0) for port in op.outputs}

    left_out = [op.name for op in OPS if not op.tolerance]
    assert set(left_out) <= {case.plugin for case in plugin_cases.contract_cases()}
    for name in left_out:
        op = by_name()[name]
        small = list(plugin_cases.gpu_cases(name, large=False, reference=nothing))
        assert small and all(tolerance == 0 for case in small for tolerance in case.tolerance)
        assert {case.name for case in kernels.chosen(op, "small")} == {
            c.name for c in op.cases if not c.large
        }


@pytest.mark.parametrize("name", [name for name, case in HUGE.items() if not isinstance(case, str)])
def test_oracles_of_the_huge_cases_agree_with_the_reference(name: str) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(11)
    case = HUGE[name]
    assert isinstance(case, HugeCase)
    small = case.make(case.small, "cpu")
    arrays = {key: tensor.numpy() for key, tensor in small.inputs.items()}
    right = [torch.from_numpy(array) for array in by_name()[name].reference(small.fields, arrays).values()]
    checks = small.check(right)
    assert len(checks) >= 2
    for place, found, wanted in checks:
        assert found.size and np.linalg.norm(wanted) > 0
        assert metrics.relative_error(found, wanted) < 1e-12, place
    # Zeros, too, must be seen to be others.
    for place, found, wanted in small.check([1.01 * array + 1 for array in right]):
        assert metrics.relative_error(found, wanted) > 1e-3, place


def test_what_runs_under_the_sanitizer_is_there() -> None:
    for op in OPS:
        wide, large = ({case.name for case in kernels.chosen(op, which)} for which in ("wide", "large"))
        assert wide == {case.name for case in op.cases if case.tiles} <= large
        assert {case.name for case in op.benchmarks} <= large
    assert any(case.tiles for op in OPS for case in op.cases)
    assert not [case for op in OPS for case in kernels.chosen(op, "small") if case.large]
    assert {tool.cases for tool in sanitizer.TOOLS} == {"small", "large", "wide", *kernels.FAULTS}


def test_parts_of_the_sanitizer_are_all_operators_once() -> None:
    for tool in sanitizer.TOOLS + sanitizer.ENGINE_TOOLS:
        named = [name for run in sanitizer.runs_of(tool) for name in run.operators]
        if tool.fault:
            assert len(named) == 1 and by_name()[named[0]].tolerance  # every element of its output is written
            continue
        cases = "small" if tool.cases == sanitizer.ENGINES else tool.cases
        assert sorted(named) == sorted(op.name for op in OPS if kernels.chosen(op, cases))
        some = OPS[:2]
        assert {name for run in sanitizer.runs_of(tool, some) for name in run.operators} <= {
            o.name for o in some
        }


def test_steps_take_the_gpus_that_they_may(monkeypatch: pytest.MonkeyPatch) -> None:
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": "1,3"}) == ["1", "3"]
    monkeypatch.setattr(machine, "_said", lambda *command: "GPU 0: NVIDIA H200\nGPU 1: NVIDIA H200\n")
    assert visible_gpus({}) == ["0", "1"]
    monkeypatch.setattr(machine, "_said", lambda *command: "")
    assert visible_gpus({}) == ["0"]


def test_an_operator_that_nobody_knows_is_a_mistake_of_usage() -> None:
    ended = run_boxed(
        [
            sys.executable,
            str(Path(__file__).parents[2] / "scripts" / "gpu_check.py"),
            "--operators",
            "NoSuchOne",
        ],
        60,
    )
    assert ended.code == 2 and "NoSuchOne: no such operator" in ended.output


def test_a_script_s_own_record_becomes_a_row_without_what_the_record_has_already(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import json, sys\n"
        "open(sys.argv[-1], 'w').write(json.dumps({'commit': 'c', 'on': 'gpu', 'planted': [{'found': True}]}))\n"
        "print('1 planted: 0 wrong')\nsys.exit(1)\n"
    )
    monkeypatch.setattr(commands, "planted_command", lambda bundle: [str(script)])
    commands.check_planted(None, 20.0, Notes(tmp_path / "notes"))
    result = read_notes(tmp_path / "notes", "planted", "")
    assert result.rows == [{"found": {"on": "gpu", "planted": [{"found": True}]}}]
    assert result.summary == "1 planted: 0 wrong" and "exited with code 1" in result.failures[0]


def test_every_step_is_there_and_asks_for_what_steps_are_given() -> None:
    for step in gpu_check.ALL.values():
        module, _, function = step.check.partition(":")
        check = getattr(importlib.import_module(f"gpucheck.{module}"), function)
        known = {"folder", "limit_s", "notes", "ops", "bundle", "models", "names", "kept"}
        assert set(inspect.signature(check).parameters) <= known
