"""Tests that a library of only the toy operator, from plugins_cpp and the toy's sources, keeps the whole contract."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from realregistries.lean_wheels import RTX
from realregistries.registry_answers import ask
from realregistries.registry_questions import questions
from tests.adding.toy_operator.local_peaks import LOCAL_PEAKS
from tests.adding.toys import OPERATOR, OPERATOR_LINES, ROOT, add
from tests.converter.plugin.fixtures import cuda_root, cudart, tensorrt_include
from trtsmith.converter.compile.definitions.definition_source import definition_header
from trtsmith.converter.plugin.cases import contract_cases
from trtsmith.converter.plugin.contract import CheckStatus
from trtsmith.converter.plugin.test import test_library as run_contract

LIST = "plugins_cpp/ops/list.cmake"


def run(*command: object, cwd: Path | None = None) -> None:
    ran = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compiled with nvcc and g++, from the list with its one line. Kernels are in intermediate code, for any GPU."""
    folder = tmp_path_factory.mktemp("library")
    shutil.copytree(ROOT / "plugins_cpp", folder / "plugins_cpp")
    (folder / LIST).write_text("", encoding="utf-8")
    cpp = [name for name in OPERATOR if name.startswith("plugins_cpp/")]
    add(folder, {name: OPERATOR[name] for name in cpp}, {LIST: OPERATOR_LINES[LIST]})
    sources, build = folder / "plugins_cpp", folder / "build"
    places = [f"-DPROJECT_{name}_DIR={path}" for name, path in (("SOURCE", sources), ("BINARY", build))]
    run("cmake", *places, "-P", sources / "cmake" / "Operators.cmake")
    definition = build / "generated" / "definitions" / "local_peaks.hpp"
    definition.parent.mkdir()
    definition.write_text(definition_header(LOCAL_PEAKS), encoding="utf-8")
    (kernel,) = (folder / name for name in cpp if name.endswith(".cu"))
    (binding,) = (folder / name for name in cpp if name.endswith(".cpp"))
    nvcc = os.environ.get("CUDACXX") or cuda_root() / "bin" / "nvcc"
    options = ["-std=c++17", "-arch=compute_90", "-Xcompiler=-fPIC,-fvisibility=hidden"]
    run(nvcc, *options, "-I", sources, "-c", kernel, "-o", build / "kernel.o")
    headers = (tensorrt_include(), cuda_root() / "include")
    includes = [f"-I{sources}", f"-I{build / 'generated'}", *(f"-isystem{path}" for path in headers)]
    target = folder / "libtoy.so"
    options = ["-std=c++20", "-O1", "-fPIC", "-fvisibility=hidden", "-shared", "-Wall", "-Wextra", "-Werror"]
    options += ["-Wno-deprecated-declarations", '-DTRTSMITH_CUDA_ARCHITECTURES="90"']
    parts = [sources / "library.cpp", binding, build / "kernel.o", cudart()]
    run(os.environ.get("CXX", "g++"), *options, *includes, *parts, "-ldl", "-lrt", "-lpthread", "-o", target)
    return target


def test_its_manifest_is_its_definition(library: Path) -> None:
    function = ctypes.CDLL(str(library)).trtsmithManifest
    function.restype = ctypes.c_char_p
    (operator,) = json.loads(function())["operators"]
    assert (operator["name"], operator["version"]) == (LOCAL_PEAKS.name, LOCAL_PEAKS.version)
    assert [f["name"] for f in operator["fields"]] == [f.name for f in LOCAL_PEAKS.fields]
    for side, ports in (("inputs", LOCAL_PEAKS.inputs), ("outputs", LOCAL_PEAKS.outputs)):
        found = [(p["name"], p["type"], p["rank"], p["optional"], p["size"]) for p in operator[side]]
        assert found == [(p.name, p.type, p.rank, p.optional, p.size) for p in ports]


def test_a_real_registry_is_asked_about_it(library: Path, tmp_path: Path) -> None:
    file = tmp_path / "questions.json"
    file.write_text(json.dumps(questions((LOCAL_PEAKS,), {"V3": library})))
    answers = ask(RTX, file)
    assert answers["faults"] == []
    counts = answers["asked"]["V3"][LOCAL_PEAKS.name]
    small = sum(not case.large for case in LOCAL_PEAKS.cases)
    assert (counts["cases"], counts["plugins"]) == (small, 3 * small)
    # In two phases: an unknown field; none; one missing, twice, of two other types, two other lengths, two wrong values.
    assert counts["refusals"] == 2 * 10


def test_it_keeps_the_contract_in_every_case(library: Path) -> None:
    report = run_contract(library, gpu=False, definitions=contract_cases((LOCAL_PEAKS,)))
    failed = [result for result in report.results if result.verdict is CheckStatus.FAIL]
    assert failed == []
    assert sum(result.verdict is CheckStatus.PASS for result in report.results) > 50
