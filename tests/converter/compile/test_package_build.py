"""A scaffolded package compiles with the SDK of the wheel, and failures are explained.

One package is compiled for one GPU, once; the tests change a part of it at a time.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import ROOT, checkout_environment
from trtsmith.converter.base.errors import ConversionError
from trtsmith.converter.compile import sdk
from trtsmith.converter.compile.manifest_check import check_manifest
from trtsmith.converter.compile.package_build import BuildOrder, BuiltPackage, build_package
from trtsmith.converter.compile.package_folder import PackageFolder, find_package
from trtsmith.converter.operators.library_manifest import library_manifest
from trtsmith.converter.operators.loading import load_package
from trtsmith.converter.operators.sources import OperatorSource
from trtsmith.converter.plugin.cases import contract_cases
from trtsmith.converter.plugin.contract import CheckStatus
from trtsmith.converter.plugin.test import test_library as run_contract
from trtsmith.converter.scaffold.folder import write_folder
from trtsmith.converter.scaffold.names import Names
from trtsmith.converter.scaffold.sample import ELEMENTWISE, sample_files

NAMES = Names("PointWindows", "acme")


def build(package: PackageFolder, *, v2: bool = False) -> BuiltPackage:
    def accept(library: Path) -> None:
        operators = load_package(OperatorSource(str(package.module), "a test")).operators
        check_manifest(library, operators)

    order = BuildOrder(package, v2=v2, architectures="86")
    return build_package(order, dict(os.environ), accept, lambda _: None)


@pytest.fixture(scope="module")
def installed_sdk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the wheel has, by CMake's own install rules."""
    work = tmp_path_factory.mktemp("sdk")
    include = os.environ["TRTSMITH_TENSORRT_INCLUDE"]
    configure = ["cmake", "-G", "Ninja", "-S", ROOT / "plugins_cpp", "-B", work / "build", "-DSKBUILD=ON"]
    configure += [f"-DTRTSMITH_TENSORRT_INCLUDE={include}", "-DTRTSMITH_CUDA_ARCHITECTURES=86"]
    install = ["cmake", "--install", work / "build", "--component", "sdk", "--prefix", work / "site"]
    for command in (configure, install):
        subprocess.run([str(word) for word in command], check=True, capture_output=True)
    return work / "site" / "trtsmith" / "plugins_cpp"


@pytest.fixture(scope="module")
def compiled(installed_sdk: Path, tmp_path_factory: pytest.TempPathFactory) -> PackageFolder:
    """The package, compiled with nothing but the installed SDK."""
    folder = tmp_path_factory.mktemp("package") / "point_windows"
    write_folder(folder, sample_files(NAMES))
    package = find_package(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sdk, "SDK", installed_sdk)
        built = build(package)
    assert built.libraries == (package.library(),)
    assert str(installed_sdk) in (package.build / "CMakeCache.txt").read_text()
    return package


@pytest.fixture
def package(compiled: PackageFolder, installed_sdk: Path, monkeypatch: pytest.MonkeyPatch) -> PackageFolder:
    monkeypatch.setattr(sdk, "SDK", installed_sdk)
    return compiled


def test_it_keeps_the_whole_contract(package: PackageFolder) -> None:
    assert library_manifest(package.library())["cuda_architectures"].split()[0] == "86-real"
    operators = load_package(OperatorSource(str(package.module), "a test")).operators
    report = run_contract(package.library(), gpu=False, definitions=contract_cases(operators))
    assert [r for r in report.results if r.verdict is CheckStatus.FAIL] == []
    assert sum(r.verdict is CheckStatus.PASS for r in report.results) > 100


def own_tests(package: PackageFolder) -> str:
    """What the package's own tests print; without a GPU, as the library is compiled for one kind."""
    env = {**checkout_environment(), "CUDA_VISIBLE_DEVICES": ""}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        str(package.root),
    ]
    return subprocess.run(command, env=env, capture_output=True, text=True, cwd=package.root).stdout


def test_its_own_tests_pass_after_its_alias_is_renamed(package: PackageFolder, tmp_path: Path) -> None:
    renamed = tmp_path / "renamed"
    shutil.copytree(package.root, renamed, ignore=shutil.ignore_patterns("build", "__pycache__"))
    definition = renamed / package.module.name / "definition.py"
    text = definition.read_text().replace('op_type="PointWindows"', 'op_type="PoolOfPoints"')
    definition.write_text(text.replace('domains=("acme",)', 'domains=("elsewhere",)'))
    told = own_tests(find_package(renamed))
    assert "24 passed" in told and "failed" not in told, told


def test_an_operator_of_each_element_passes_its_own_tests(
    installed_sdk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sdk, "SDK", installed_sdk)
    write_folder(tmp_path / "leaky_clamp", sample_files(Names("LeakyClamp", "acme"), ELEMENTWISE))
    package = find_package(tmp_path / "leaky_clamp")
    assert build(package).libraries == (package.library(),)
    told = own_tests(package)
    assert "17 passed" in told and "failed" not in told, told


def test_nothing_is_compiled_again_and_the_library_stays(package: PackageFolder) -> None:
    before = package.library().stat()
    build(package)
    assert "ninja: no work to do" in (package.build / "build.log").read_text()
    assert package.library().stat().st_ino == before.st_ino


def test_a_definition_that_says_something_else_keeps_the_library_out(package: PackageFolder) -> None:
    definition = package.module / "definition.py"
    text, before = definition.read_text(), package.library().read_bytes()
    definition.write_text(text.replace('Port("weights", "T", 1,', 'Port("weights", "T", 2,'))
    try:
        with pytest.raises(
            ConversionError, match="rank of input 'weights': the library has 1, the definition 2"
        ):
            build(package)
    finally:
        definition.write_text(text)
        # Python tells bytecode of another text by its size and second, which are the same here
        shutil.rmtree(definition.parent / "__pycache__", ignore_errors=True)
    assert package.library().read_bytes() == before


def test_what_does_not_compile_is_shown_and_the_old_library_stays(package: PackageFolder) -> None:
    binding = package.root / "ops" / "point_windows.cpp"
    text, before = binding.read_text(), package.library().read_bytes()
    binding.write_text(text.replace("return pointWindows(", "return pointWindow("))
    try:
        with pytest.raises(ConversionError) as caught:
            build(package)
    finally:
        binding.write_text(text)
    (problem,) = caught.value.problems
    line = 1 + text.splitlines().index(
        next(row for row in text.splitlines() if "return pointWindows(" in row)
    )
    assert f"ops/point_windows.cpp:{line}" in problem.what and "return pointWindow(params" in problem.what
    assert str(package.build / "build.log") in problem.where
    assert package.library().read_bytes() == before
    assert all(path.suffix == ".so" and path.is_file() for path in package.lib.iterdir())


def test_a_package_that_was_moved_is_compiled_anew(package: PackageFolder, tmp_path: Path) -> None:
    """CMake refuses a build folder of another place: its left-overs must not be the user's trouble."""
    moved = tmp_path / "moved"
    shutil.copytree(package.root, moved)
    with (moved / "plugins.cmake").open("a") as listed:
        listed.write('message(FATAL_ERROR "of the copy")\n')
    with pytest.raises(ConversionError, match=r"plugins.cmake:3: of the copy"):
        build(find_package(moved))


def test_the_v2_library_is_made_on_demand_and_is_then_kept_up_to_date(package: PackageFolder) -> None:
    both = (package.library(), package.library(v2=True))
    assert build(package, v2=True).libraries == both
    manifest = library_manifest(both[1])
    assert manifest["interface"] == "V2DynamicExt"
    assert [entry["name"] for entry in manifest["operators"]] == [NAMES.name]
    assert build(package).libraries == both


def test_a_package_without_kernels_has_nothing_to_compile(tmp_path: Path) -> None:
    write_folder(tmp_path / "p", sample_files(NAMES))
    (tmp_path / "p" / "plugins.cmake").write_text("# trtsmith_operator(Old BINDING a KERNELS b)\n")
    assert build(find_package(tmp_path / "p")).libraries == ()
    assert not (tmp_path / "p" / "build").exists()


def test_a_folder_that_cannot_be_written(package: PackageFolder, tmp_path: Path) -> None:
    write_folder(tmp_path / "p", sample_files(NAMES))
    (tmp_path / "p" / "build").write_text("a file in the way")
    with pytest.raises(Exception, match="cannot be written") as caught:
        build(find_package(tmp_path / "p"))
    assert caught.value.exit_code == 2  # type: ignore[attr-defined]
