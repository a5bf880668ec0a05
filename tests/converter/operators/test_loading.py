"""Sources of operators from outside: files, folders, modules, the environment, installed packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

import trtsmith
from tests.converter.models import written as write_model
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.cli.main import main
from trtsmith.converter.engine.child.pool import child_environment
from trtsmith.converter.operators.loading import operators_in_force, with_operators_of_parent
from trtsmith.importers.registry import OPS, by_name, operators, package_of, packages_in_force

pytestmark = pytest.mark.usefixtures("forgotten_modules")
MIXING = Path(__file__).resolve().parents[2] / "outside" / "mixing.py"
MODEL = "(float[2,3] x) => (float[2,3] y) { [odds] y = mycompany.Logit (x) }"


def known(*specs: str | Path, installed: bool = False) -> list[str]:
    with operators_in_force([str(spec) for spec in specs], installed=installed):
        return [op.name for op in operators()[len(OPS) :]]


def package(folder: Path, name: str = "gauges", operator: str = "LogOdds", alias: str = "Logit") -> Path:
    """A package folder whose definition lies in a module beside its __init__.py."""
    text = MIXING.read_text(encoding="utf-8").replace("LogOdds", operator).replace('"Logit"', f'"{alias}"')
    (folder / name).mkdir(parents=True)
    (folder / name / "definition.py").write_text(text.replace("(CHANNEL_MIXING, LOG_ODDS)", "(LOG_ODDS,)"))
    (folder / name / "__init__.py").write_text(
        f"from {name}.definition import LOG_ODDS\nfrom .definition import OPERATORS as FOUND\n\n"
        "assert FOUND == (LOG_ODDS,)\nOPERATORS = FOUND\n"
    )
    return folder / name


def installed(site: Path, name: str, value: str) -> None:
    """An installed package that has nothing but an entry point."""
    info = site / f"{name}-1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(f"[trtsmith.operators]\n{name} = {value}\n")


def test_a_file_is_loaded_and_its_operators_are_known_in_the_block_alone(tmp_path: Path) -> None:
    with operators_in_force([str(MIXING)], installed=False):
        found = package_of("LogOdds")
        assert found is not None and found.name == f"--ops {MIXING}" and found.libraries == ()
        assert [op.name for op in found.operators] == ["ChannelMixing", "LogOdds"]
    assert "LogOdds" not in by_name() and packages_in_force() == ()


def test_folders_of_packages_and_of_projects(tmp_path: Path) -> None:
    inner = package(tmp_path / "project")
    (tmp_path / "project" / "tests").mkdir()
    (tmp_path / "project" / "tests" / "__init__.py").write_text("")
    for spec in (inner, tmp_path / "project", inner / "__init__.py", inner / "definition.py"):
        assert known(spec) == ["LogOdds"]
    moved = tmp_path / "with_src" / "src"
    moved.mkdir(parents=True)
    package(moved, "scales", "OddsTwo", "LogitTwo")
    assert known(tmp_path / "with_src") == ["OddsTwo"]


def test_a_path_is_relative_to_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert known("gauges") == known("./gauges") == known(".") == ["LogOdds"]


def test_a_dotted_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert known("gauges") == known("gauges.definition") == ["LogOdds"]


def test_the_environment_names_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = package(tmp_path, operator="OddsTwo", alias="LogitTwo")
    monkeypatch.setenv("TRTSMITH_OPS", f"{MIXING}{os.pathsep}{os.pathsep}{other}")
    assert known() == ["ChannelMixing", "LogOdds", "OddsTwo"]
    with operators_in_force(installed=False):
        found = package_of("OddsTwo")
        assert found is not None and found.name == f"TRTSMITH_OPS, {other}"


def test_entry_points_of_installed_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tmp_path)
    installed(tmp_path, "gauges_dist", "gauges")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert known(installed=False) == []
    assert "gauges" not in sys.modules  # nothing is executed that was not asked for
    assert known(installed=True) == ["LogOdds"]
    with operators_in_force():
        found = package_of("LogOdds")
        assert found is not None and found.name == "entry point gauges_dist of gauges_dist 1.2"


def test_an_entry_point_must_name_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path, "odd", "gauges:LOG_ODDS")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(
        UsageError, match=r"entry point odd of odd 1.2: its value is 'gauges:LOG_ODDS'"
    ) as error:
        known(installed=True)
    assert "--no-plugins-from-packages" in error.value.problems[0].fix


def test_what_is_named_twice_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a package that is installed for development, and named by its folder."""
    folder = package(tmp_path)
    installed(tmp_path, "gauges_dist", "gauges")
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "link").symlink_to(folder / "__init__.py")
    assert known(folder, "gauges", tmp_path, installed=True) == ["LogOdds"]
    with operators_in_force([str(folder)]):
        assert known("gauges") == ["LogOdds"]


def test_packages_in_force_stay_in_force_with_others(tmp_path: Path) -> None:
    other = package(tmp_path, operator="OddsTwo", alias="LogitTwo")
    with operators_in_force([str(MIXING)], installed=False):
        assert known(other) == ["ChannelMixing", "LogOdds", "OddsTwo"]


def test_a_file_that_has_changed_is_loaded_again(tmp_path: Path) -> None:
    folder = package(tmp_path)
    assert known(folder) == ["LogOdds"]
    first = sys.modules["gauges"]
    assert known(folder) == ["LogOdds"] and sys.modules["gauges"] is first
    definition = folder / "definition.py"
    definition.write_text(definition.read_text().replace('"LogOdds"', '"LogOddsAgain"'))
    assert known(folder) == ["LogOddsAgain"] and sys.modules["gauges"] is not first


def test_a_child_process_knows_the_packages_of_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(tmp_path, operator="OddsTwo", alias="LogitTwo")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(
        "TRTSMITH_OPS", "nothing.that.is.there"
    )  # what the parent does not know, no child loads
    assert "TRTSMITH_OPS" not in child_environment("", tmp_path)
    monkeypatch.delenv("TRTSMITH_OPS")
    with operators_in_force([os.path.relpath(MIXING), "gauges"], installed=False):
        environment = child_environment("", tmp_path)
    assert environment["TRTSMITH_OPS"].split(os.pathsep) == [
        str(MIXING), str(tmp_path / "gauges" / "__init__.py"),
    ]  # fmt: skip
    code = (
        "from trtsmith.importers.registry import OPS, operators\n"
        "from trtsmith.converter.operators.loading import with_operators_of_parent\n"
        "names = with_operators_of_parent(lambda: [op.name for op in operators()[len(OPS):]])\n"
        "print(*names())"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd="/", capture_output=True, text=True, check=True
    )
    assert ended.stdout.split() == ["ChannelMixing", "LogOdds", "OddsTwo"]


def test_the_work_of_a_child_has_what_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTSMITH_OPS", str(MIXING))
    assert with_operators_of_parent(lambda a, b=0: (a, b, "LogOdds" in by_name()))(1, b=2) == (1, 2, True)


def test_commands_and_functions_know_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_model(tmp_path / "m.onnx", MODEL)
    assert main(["check", str(path)]) == 1
    assert "no importer for operator mycompany::Logit" in capsys.readouterr().err
    assert main(["check", str(path), "--ops", str(MIXING)]) == 1
    assert "the operator LogOdds has no compiled plugin" in capsys.readouterr().err
    assert main(["rewrite", str(path), "-o", str(tmp_path / "e.onnx"), "--expand", "--ops", str(MIXING)]) == 0
    assert {n.domain for n in onnx.load(tmp_path / "e.onnx").graph.node} == {""}
    capsys.readouterr()
    assert main(["ops", "--json", "--ops", str(MIXING)]) == 0
    listed = {op["name"]: op["package"] for op in json.loads(capsys.readouterr().out)}
    assert listed["LogOdds"] == f"--ops {MIXING}" and listed[OPS[0].name] is None
    assert trtsmith.check(path, ops=MIXING).plan.routes() == {"plugin": 1}
    assert trtsmith.check(path).plan.routes() == {"unsupported": 1}
    assert trtsmith.rewrite(path, ops=[MIXING], expand=True).graph.proto.graph.node[0].domain == ""


def test_commands_that_need_no_definition_import_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text("raise RuntimeError('this was run')\n")
    monkeypatch.setenv("TRTSMITH_OPS", str(tmp_path / "mine.py"))
    assert main(["ops"]) == 2
    assert "this was run" in capsys.readouterr().err
    assert main(["plugin", "path"]) == 0
    assert main(["run", str(tmp_path / "no.plan"), "--list"]) == 2
    assert "this was run" not in capsys.readouterr().err


def test_doctor_works_where_onnx_is_missing() -> None:
    code = (
        "import sys\nsys.modules['onnx'] = None\nfrom trtsmith.converter.cli.main import main\n"
        f"main(['doctor', '--ops', {str(MIXING)!r}])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "trtsmith_host" in ended.stdout and "Traceback" not in ended.stderr


def test_no_command_runs_what_it_was_told_to_leave_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "raises_on_import.py").write_text("raise RuntimeError('this was run')\n")
    installed(tmp_path, "mine_dist", "raises_on_import")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["ops"]) == 2
    said = capsys.readouterr()
    assert said.out == "" and "entry point mine_dist of mine_dist 1.2: RuntimeError: this was run" in said.err
    assert (
        "raises_on_import.py, line 1: raise RuntimeError" in said.err
        and "--no-plugins-from-packages" in said.err
    )
    assert main(["ops", "--no-plugins-from-packages"]) == 0
