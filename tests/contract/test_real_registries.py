"""Both plugin libraries in the real plugin registries of TensorRT 10 and 11 (NVIDIA's lean runtimes) and of TensorRT-RTX."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from envsetup.wheels import pinned
from realregistries import lean_wheels, registry_answers
from realregistries.registry_questions import questions
from trtsmith.converter.compile.logged import SetupError
from trtsmith.converter.plugin.creators import held_plugins
from trtsmith.importers.declared.stock import stock_plugins
from trtsmith.importers.registry import OPS

RECORD = lean_wheels.ROOT / "benchmarks" / "real_registries.json"


@pytest.fixture(scope="module")
def asked() -> dict[str, Any]:
    return questions()


def ask(version: str, asked: dict[str, Any], folder: Path) -> dict[str, Any]:
    file = folder / "questions.json"
    file.write_text(json.dumps(asked))
    try:
        return registry_answers.ask(version, file)
    except SetupError as error:
        pytest.fail(f"TensorRT {version} could not be fetched.\n{error.tail}\n{error}", pytrace=False)


@pytest.mark.parametrize("version", [*lean_wheels.IN_TESTS, lean_wheels.RTX])
def test_libraries_in_a_real_registry(version: str, asked: dict[str, Any], tmp_path: Path) -> None:
    answers = ask(version, asked, tmp_path)
    assert not answers["faults"], "\n".join(answers["faults"][:20])
    assert version in (answers["version"], lean_wheels.RTX)
    for interface in ("V3", "V2"):
        found = answers["asked"][interface]
        assert list(found) == [op.name for op in OPS if interface in op.interfaces]
        for op in (op for op in OPS if interface in op.interfaces):
            small = sum(not case.large for case in op.cases)
            assert found[op.name]["cases"] == small
            assert found[op.name]["plugins"] == small * {"V3": 3, "V2": 4}[interface]
            # With an unknown field; and each field missing, twice, of another type or length.
            assert found[op.name]["refusals"] > 6 * len(op.fields)
    assert answers["expression_places"] == [2, 3, 4]  # after two destructors, in the order of the headers
    assert answers["by_the_converter"] > sum(not case.large for op in OPS for case in op.cases)


def with_fields(asked: dict[str, Any], interface: str) -> list[dict[str, Any]]:
    """The operators that have two fields at least; no operator is named here."""
    return [one for one in asked[interface]["operators"].values() if len(one["fields"]) > 1]


def _other_name(asked: dict[str, Any]) -> None:
    operators = asked["V3"]["operators"]
    operators["NoSuchPlugin"] = operators.pop(
        next(name for name in operators if not operators[name]["fields"])
    )


def _other_words(asked: dict[str, Any]) -> None:
    with_fields(asked, "V3")[0]["refusals"][0]["said"] = "something else\n"


def _nothing_wrong(asked: dict[str, Any]) -> None:
    operator = with_fields(asked, "V2")[0]
    operator["refusals"][0]["fields"] = operator["cases"][0]["fields"]


def _other_fields(asked: dict[str, Any]) -> None:
    with_fields(asked, "V3")[0]["fields"].reverse()


def _other_answer(asked: dict[str, Any]) -> None:
    with_fields(asked, "V3")[0]["cases"][0]["says"]["num_outputs"] = 77


def _other_state(asked: dict[str, Any]) -> None:
    # A zero that may as well be a one; not of the operator that has other inputs.
    states = [one["cases"][0]["states"][0] for one in with_fields(asked, "V3")[:-1]]
    next(state for state in reversed(states) if state[-1][1] == "int32" and state[-1][2] == [0])[-1][2][0] = 1


def _other_workspace(asked: dict[str, Any]) -> None:
    with_fields(asked, "V3")[0]["cases"][0]["answers"]["workspace"] += 1


def _other_inputs(asked: dict[str, Any]) -> None:
    # The first input of the last operator: its sizes decide the output's.
    case = with_fields(asked, "V3")[-1]["cases"][0]
    case["inputs"] = [("int8", [77] * len(shape)) for _, shape in case["inputs"]]


def _other_bytes(asked: dict[str, Any]) -> None:
    states = with_fields(asked, "V2")[-1]["cases"][0]["states"]
    states[0] = states[0][:-2] + "00"


PLANTED = {
    "the list of creators is": _other_name,
    "there is no such creator": _other_name,
    "what it said is": _other_words,
    "what the creator gave is": _nothing_wrong,
    "the list of fields is": _other_fields,
    "expected 77": _other_answer,
    "metadata_string is": _other_state,
    "workspace is": _other_workspace,
    "shapes is": _other_inputs,
    "formats is": _other_inputs,
    "there is no plugin from ": _other_bytes,
}


def test_a_wrong_answer_is_a_fault(asked: dict[str, Any], tmp_path: Path) -> None:
    wrong = copy.deepcopy(asked)
    for plant in dict.fromkeys(PLANTED.values()):
        plant(wrong)
    faults = ask(lean_wheels.RTX, wrong, tmp_path)["faults"]
    for words in PLANTED:
        assert any(words in fault for fault in faults), words


def test_a_library_that_is_not_there_is_a_fault(asked: dict[str, Any], tmp_path: Path) -> None:
    wrong = copy.deepcopy(asked)
    wrong["V3"]["path"] = str(tmp_path / "absent.so")
    *_, fault = ask(lean_wheels.RTX, wrong, tmp_path)["faults"]
    assert "it was at: loading V3" in fault and "load_library gave nothing" in fault


def test_a_crash_is_a_fault_with_the_last_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lines = ("import os, signal", "os.write(2, b'famous last words')", "os.kill(os.getpid(), signal.SIGSEGV)")
    (tmp_path / "crashing.py").write_text("\n".join(lines))
    monkeypatch.setattr(registry_answers, "module_and_folder", lambda version: ("crashing", str(tmp_path)))
    (fault,) = ask("any", {}, tmp_path)["faults"]
    assert "ended with SIGSEGV; it was at: starting" in fault and "famous last words" in fault


def test_pins() -> None:
    pins = pinned(lean_wheels.PINS)
    assert {*lean_wheels.IN_TESTS} <= set(pins)
    for version, lines in pins.items():
        packages = [line.split("==")[0] for line in lines]
        assert packages == ["tensorrt-lean-cu13-libs", "tensorrt-lean-cu13-bindings"], version
        assert [line.count("--hash=sha256:") for line in lines] == [1, 4], version


def test_record_is_of_every_version_and_without_faults() -> None:
    answers = json.loads(RECORD.read_text())["answers"]
    assert tuple(answers) == lean_wheels.versions()
    assert not [fault for found in answers.values() for fault in found["faults"]]


@pytest.mark.parametrize("version", lean_wheels.IN_TESTS)
def test_the_table_of_stock_plugins_is_right_about_those_that_can_be_asked(version: str) -> None:
    """The lean runtime comes with NVIDIA's build of the plugins that version-compatible engines may have."""
    _, folder = lean_wheels.module_and_folder(version)
    (library,) = Path(folder, "tensorrt_lean_libs").glob("libnvinfer_vc_plugin.so.*")
    release = tuple(map(int, version.split(".")[:2]))
    known = {(p.creator.name, p.creator.version): p.creator for p in stock_plugins(release)}
    (held,) = held_plugins([library])
    assert held.creators and held.how == "getCreators"
    for creator in held.creators:
        told = known[(creator.name, creator.version)]
        assert (told.namespace, told.family) == (creator.namespace, creator.family)
        assert told.fields == creator.fields
