"""The library of an outside operator's plugin, and that it was compiled from the current definition."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.converter.models import parsed, written
from tests.outside.compiled import HERE, compile_mixing
from tests.outside.mixing import CHANNEL_MIXING, LOG_ODDS, OPERATORS
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.cli.main import main
from trtsmith.converter.convert.analysis import AnalysisOptions, analyse
from trtsmith.converter.convert.facts import coverage
from trtsmith.converter.convert.plan import library_of_plugins, needed_libraries
from trtsmith.converter.engine import libraries
from trtsmith.converter.operators.compiled import build_command, compiled_operators, library_of
from trtsmith.converter.operators.library_manifest import (
    UnreadableManifest,
    differences,
    library_manifest,
    manifest_entry,
)
from trtsmith.converter.operators.loading import operators_in_force
from trtsmith.importers.opdef import Field, Kind, Port
from trtsmith.importers.operator_package import OperatorPackage
from trtsmith.importers.problem import Problem
from trtsmith.importers.registry import OPS, packages_in_force

MODEL = (
    "(float[2,3,3] x) => (float[2,3,3] y) { i = com.microsoft.Inverse (x) [odds] y = mycompany.Logit (i) }"
)


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_mixing(tmp_path_factory.mktemp("mixing"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project folder without a library."""
    folder = tmp_path / "project"
    (folder / "mixing_ops" / "lib").mkdir(parents=True)
    shutil.copy(HERE / "mixing.py", folder / "mixing_ops" / "__init__.py")
    (folder / "plugins.cmake").write_text("")
    return folder


@pytest.fixture
def built(project: Path, compiled: Path) -> Iterator[OperatorPackage]:
    """The package with its library, in force."""
    shutil.copy(compiled, project / "mixing_ops" / "lib")
    with in_force(project):
        (package,) = packages_in_force()
        yield package


def only(problems: tuple[Problem, ...]) -> Problem:
    (problem,) = problems
    return problem


def test_the_manifests_of_ours_are_what_definitions_say() -> None:
    document = library_manifest(libraries.plugin_library())
    assert document == libraries.manifest(libraries.plugin_library())
    entries = {entry["name"]: entry for entry in document["operators"]}
    for op in OPS:
        assert list(differences(op, entries[op.name])) == []
        assert entries[op.name] == manifest_entry(op)


def field(**parts: Any) -> tuple[Field, ...]:
    return (Field("gain", **{"kind": Kind.FLOAT, "doc": "", **parts}),)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"version": "2"}, ("version", "'1'", "'2'")),
        ({"fields": ()}, ("fields", "gain", "none")),
        ({"fields": field(kind=Kind.INT, minimum=0)}, ("kind of field 'gain'", "'float'", "'int'")),
        ({"fields": field(minimum=1.0)}, ("minimum of field 'gain'", "0.0", "1.0")),
        ({"inputs": (*CHANNEL_MIXING.inputs[:2], Port("bias", "T", 1, ""))}, ("optional of input 'bias'", "True", "False")),
        ({"outputs": (Port("y", "T", 3, ""),)}, ("rank of output 'y'", "4", "3")),
        ({"inputs": CHANNEL_MIXING.inputs[:2]}, ("inputs", "x, weight, bias", "x, weight")),
    ],
)  # fmt: skip
def test_every_difference_is_told(changed: dict[str, Any], expected: tuple[str, str, str]) -> None:
    assert list(differences(replace(CHANNEL_MIXING, **changed), manifest_entry(CHANNEL_MIXING))) == [expected]


@contextmanager
def in_force(*specs: Path) -> Iterator[None]:
    with operators_in_force([*map(str, specs)], installed=False):
        yield


def test_values_that_cpp_knows_no_range_for_are_not_compared() -> None:
    op = replace(LOG_ODDS, fields=(Field("mode", Kind.STRING, "", allowed=("a", "b")),))
    entry: dict[str, Any] = manifest_entry(op)
    entry["fields"][0] |= {"minimum": None, "maximum": None}
    assert list(differences(op, entry)) == []


def test_the_library_is_found_with_its_operators(built: OperatorPackage, project: Path) -> None:
    library = project / "mixing_ops" / "lib" / "libmixing_plugins.so"
    assert built.libraries == (library,)
    found, problems = compiled_operators(["LogOdds", OPS[0].name, "ChannelMixing", "LogOdds"])
    assert problems == ()
    ((path, operators),) = [(each.path, each.operators) for each in found]
    assert (path, operators, found[0].architectures) == (library, ("LogOdds", "ChannelMixing"), "86-real")
    assert library_of("LogOdds") == library and library_of(OPS[0].name) is None


def test_an_operator_without_a_library_says_how_to_get_one(project: Path) -> None:
    with in_force(project):
        found, problems = compiled_operators(["LogOdds"])
        assert found == ()
        problem = only(problems)
        with pytest.raises(UsageError, match="no compiled plugin"):
            library_of("LogOdds")
    assert problem.what == f"--ops {project}: the operator LogOdds has no compiled plugin"
    assert problem.where == str(project / "mixing_ops" / "lib")
    assert problem.fix.startswith(f"trtsmith op build {project};") and "--expand" in problem.fix


def test_the_command_to_build_names_a_folder_in_every_case(tmp_path: Path, project: Path) -> None:
    (tmp_path / "two words").mkdir()
    file = tmp_path / "two words" / "mine.py"
    shutil.copy(HERE / "mixing.py", file)

    def said(spec: Path) -> str:
        with in_force(spec):
            return build_command(packages_in_force()[0])

    assert said(project) == said(project / "mixing_ops") == f"trtsmith op build {project}"
    assert said(file) == "trtsmith op build DIR"
    (file.parent / "plugins.cmake").write_text("")
    assert said(file) == f"trtsmith op build '{file.parent}'"
    assert build_command(OperatorPackage("made here", OPERATORS)) == "trtsmith op build DIR"


def test_a_library_without_the_operator(project: Path, tmp_path: Path) -> None:
    shutil.copy(compile_mixing(tmp_path / "other", "ChannelMixing"), project / "mixing_ops" / "lib")
    with in_force(project):
        problem = only(compiled_operators(["LogOdds", "ChannelMixing"])[1])
    assert problem.what.endswith("LogOdds has no compiled plugin; there are plugins of ChannelMixing")


def test_a_v2_library_is_none_for_an_engine(project: Path, tmp_path: Path) -> None:
    shutil.copy(compile_mixing(tmp_path / "v2", v2=True), project / "mixing_ops" / "lib")
    with in_force(project):
        assert [path.name for path in packages_in_force()[0].libraries] == ["libmixing_plugins_v2.so"]
        assert "no compiled plugin" in only(compiled_operators(["LogOdds"])[1]).what


def test_two_libraries_of_one_package(project: Path, tmp_path: Path) -> None:
    for name in ("ChannelMixing", "LogOdds"):
        library = compile_mixing(tmp_path / name, name)
        shutil.copy(library, project / "mixing_ops" / "lib" / f"lib{name}_plugins.so")
    with in_force(project):
        found, problems = compiled_operators(["LogOdds", "ChannelMixing"])
    assert problems == ()
    assert [(each.path.name, each.operators) for each in found] == [
        ("libChannelMixing_plugins.so", ("ChannelMixing",)), ("libLogOdds_plugins.so", ("LogOdds",)),
    ]  # fmt: skip


def test_a_definition_that_is_not_what_was_compiled_is_refused(
    project: Path, compiled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(compiled, project / "mixing_ops" / "lib")
    definition = project / "mixing_ops" / "__init__.py"
    definition.write_text(definition.read_text().replace('Port("p", "T", None,', 'Port("p", "T", 3,'))
    written(project / "m.onnx", MODEL)
    command = ["check", str(project / "m.onnx"), "--ops", str(project)]
    assert main(command) == 1
    said = capsys.readouterr().err
    assert "LogOdds: the library was compiled with rank of input 'p' None, and the definition has 3" in said
    assert f"trtsmith op build {project}" in said


BROKEN = {
    "no library": (b"this is text", "it does not load: "),
    "no manifest": ("int f() { return 1; }", "it has no manifest: it was not made with trtsmith's adapters"),
    "not JSON": ('const char* trtsmithManifest() { return "[1"; }', "its manifest is not as"),
    "other JSON": ('const char* trtsmithManifest() { return "{\\"operators\\": [1]}"; }', "its manifest is not as"),
    "null": ("const char* trtsmithManifest() { return 0; }", "it does not load: "),
    "crash": ("#include <stdlib.h>\n__attribute__((constructor)) static void f() { abort(); }", "the process with signal 6"),
    "exit": ("#include <stdlib.h>\n__attribute__((constructor)) static void f() { exit(0); }", "its manifest is not"),
    "symbol": ("void g(void); void f(void) { g(); }", "undefined symbol: g"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_library_that_cannot_be_asked(name: str, tmp_path: Path, project: Path) -> None:
    source, why = BROKEN[name]
    library = project / "mixing_ops" / "lib" / "libmixing_plugins.so"
    if isinstance(source, bytes):
        library.write_bytes(source)
    else:
        command = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-Wl,-z,now", "-o", str(library)]
        subprocess.run(command, input=source.encode(), check=True)
    with pytest.raises(UnreadableManifest) as error:
        library_manifest(library)
    assert why in str(error.value)
    with in_force(project):
        problem = only(compiled_operators(["LogOdds"])[1])
    assert f"--ops {project}: the plugin library cannot be used: {str(error.value)[:20]}" in problem.what
    assert problem.where == str(library) and problem.fix == f"trtsmith op build {project}"


def test_a_library_that_does_not_come_back(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trtsmith.converter.operators import library_manifest as module

    library = project / "lib.so"
    source = b"#include <unistd.h>\n__attribute__((constructor)) static void f() { sleep(600); }"
    subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)], input=source, check=True)
    monkeypatch.setattr(module, "LIMIT_S", 0.5)
    with pytest.raises(UnreadableManifest, match=r"was not loaded within 0.5 s"):
        library_manifest(library)


def test_a_plan_names_every_library_once(built: OperatorPackage, project: Path, tmp_path: Path) -> None:
    planned = analyse(parsed(tmp_path / "m.onnx", MODEL), AnalysisOptions()).plan
    assert planned.problems == ()
    ours, theirs = libraries.plugin_library(), project / "mixing_ops" / "lib" / "libmixing_plugins.so"
    assert needed_libraries(planned) == (ours, theirs)
    (tmp_path / "link.so").symlink_to(theirs)
    other = tmp_path / "x.so"
    assert needed_libraries(planned, [tmp_path / "link.so", other]) == (ours, theirs, other)
    assert library_of_plugins(planned) == {"MatrixInverse": ours, "LogOdds": theirs}
    copy = tmp_path / theirs.name
    assert library_of_plugins(planned, (copy,))["LogOdds"] == copy
    outside_only = replace(planned, plugins=planned.plugins[1:])
    assert needed_libraries(outside_only) == (theirs,)


def test_gpus_that_a_library_was_not_compiled_for_are_a_warning(
    built: OperatorPackage, project: Path, tmp_path: Path
) -> None:
    planned = analyse(parsed(tmp_path / "m.onnx", MODEL), AnalysisOptions()).plan

    class Built:
        targets = ("sm86", "sm120")

    (said,) = coverage(planned, Built())  # type: ignore[arg-type]
    assert "libmixing_plugins.so has no kernels for sm120 (it was built for 86-real)" in said
    assert f"trtsmith op build {project} --architectures release" in said


def test_an_analysis_for_a_graph_alone_asks_for_no_library(project: Path, tmp_path: Path) -> None:
    with in_force(project):
        model = parsed(tmp_path / "m.onnx", MODEL)
        assert analyse(model, AnalysisOptions(compiled=False)).plan.problems == ()
        assert len(analyse(model, AnalysisOptions()).plan.problems) == 1
    out = str(tmp_path / "r.onnx")
    for flags in ([], ["--expand"]):
        assert main(["rewrite", str(tmp_path / "m.onnx"), "-o", out, "--ops", str(project), *flags]) == 0


def test_doctor_tells_of_packages(
    project: Path, compiled: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    main(["doctor", "--ops", str(project)])
    assert f"trtsmith op build {project}" in capsys.readouterr().out
    shutil.copy(compiled, project / "mixing_ops" / "lib")
    main(["doctor", "--ops", str(project)])
    said = capsys.readouterr().out
    assert (
        f"ChannelMixing, LogOdds of --ops {project}" in said and "libmixing_plugins.so (sm 86-real)" in said
    )
    (project / "broken.py").write_text("raise ValueError('no')")
    assert main(["doctor", "--ops", str(project / "broken.py")]) == 2
    assert "ValueError: no" in capsys.readouterr().out
