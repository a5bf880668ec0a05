"""Our use of TensorRT's Python API against the bindings of TensorRT 10 and 11, and against TensorRT-RTX."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

from api_use import find_use, uses_tensorrt  # noqa: E402
from stubs import make_stubs  # noqa: E402

from trtsmith.converter.engine.builder import targets  # noqa: E402
from trtsmith.converter.engine.runtime import cache, context, loading  # noqa: E402

TENSORRT = ("10.13.2.6", "10.16.1.11", "11.0.0.114", "11.4.0.106")
OLDER_RTX = ("1.4.0.76", "1.6.1.120")
RTX = "tensorrt_rtx"
RTX_ONLY = targets.RTX_ONLY | cache.RTX_ONLY | context.RTX_ONLY | loading.RTX_ONLY
SOURCES = {
    str(path.relative_to(ROOT / "converter")): path.read_text()
    for path in sorted((ROOT / "converter").rglob("*.py"))
}
# Modules that use TensorRT's objects without its module.
OBJECTS_ONLY = ("engine/runtime/cache.py", "engine/runtime/session.py")
MODULES = {name: source for name, source in SOURCES.items() if uses_tensorrt(source) or name in OBJECTS_ONLY}
# TensorRT's bindings look these up by name, in a class of ours, and list them nowhere: they are strings in the library.
OVERRIDDEN = {
    f"IOutputAllocator.{name}" for name in ("reallocate_output", "reallocate_output_async", "notify_shape")
}

# Gone in TensorRT 11. Nothing of ours may use these, and they show that the check below can fail.
GONE_IN_11 = (
    "BuilderFlag.FP16",
    "IBuilderConfig.int8_calibrator",
    "IPluginRegistry.plugin_creator_list",
    "NetworkDefinitionCreationFlag.EXPLICIT_BATCH",
    "OnnxParser.supports_model",
)


@pytest.fixture(scope="session")
def bindings() -> dict[str, Path]:
    script = ROOT / "scripts" / "fetch_bindings.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {Path(line).name: Path(line) for line in done.stdout.split()}


@pytest.fixture(scope="session")
def probes(bindings: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """version -> what probe.py says of it."""
    found = {}
    for version in (*TENSORRT, *OLDER_RTX, RTX):
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        arguments = [RTX]
        if version != RTX:
            folder = tmp_path_factory.mktemp(f"stubs-{version}")
            make_stubs(bindings[version], folder)
            environment["LD_LIBRARY_PATH"] = str(folder)
            arguments = ["names" if version in OLDER_RTX else "tensorrt", str(bindings[version])]
        command = [sys.executable, str(HERE / "probe.py"), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, f"{version}: {done.stderr}"
        found[version] = json.loads(done.stdout)
        found[version]["names"] = frozenset(found[version]["names"])
    return found


def used() -> set[str]:
    return set().union(*(find_use(source).names for source in MODULES.values()))


def test_pins_are_the_versions_under_test(bindings: dict[str, Path]) -> None:
    assert set(bindings) == {*TENSORRT, *OLDER_RTX}


def test_no_module_imports_tensorrt_by_its_name() -> None:
    for name, source in SOURCES.items():
        for node in ast.walk(ast.parse(source)) if "tensorrt" in source else ():
            imported = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            imported += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(item.split(".")[0] in ("tensorrt", RTX) for item in imported), name


@pytest.mark.parametrize("name", sorted(MODULES))
def test_objects_are_held_in_declared_variables(name: str) -> None:
    assert find_use(MODULES[name]).undeclared == set()


@pytest.mark.parametrize("version", [*TENSORRT, *OLDER_RTX, RTX])
def test_every_name_exists(probes: dict[str, dict[str, Any]], version: str) -> None:
    wanted = used() - OVERRIDDEN - (RTX_ONLY if version in TENSORRT else set())
    assert len(wanted) > 80
    assert wanted - probes[version]["names"] == set()


@pytest.mark.parametrize("version", [*TENSORRT, *OLDER_RTX])
def test_what_is_overridden_is_looked_up(bindings: dict[str, Path], version: str) -> None:
    (module,) = bindings[version].glob("tensorrt*_bindings/tensorrt*.so")
    data = module.read_bytes()
    assert used() >= OVERRIDDEN
    for method in (
        name.split(".")[1] for name in OVERRIDDEN
    ):  # as a string of its own, or where its use is shown
        assert f"\0{method}\0".encode() in data or f"def {method}(self".encode() in data, method


def test_guards_are_true(probes: dict[str, dict[str, Any]]) -> None:
    assert used() >= RTX_ONLY
    assert probes[RTX]["names"] >= RTX_ONLY
    for version in TENSORRT:
        assert probes[version]["names"] & RTX_ONLY == set()


def test_names_that_are_gone_are_not_used(probes: dict[str, dict[str, Any]]) -> None:
    gone = set(GONE_IN_11)
    for version in TENSORRT:
        assert gone & probes[version]["names"] == (gone if version.startswith("10.") else set())
    assert used() & gone == set()


def test_scan_sees_what_it_must() -> None:
    use = find_use(
        "def f(config: Any, stray: Any) -> None:\n"
        "    config.int8_calibrator = trt.BuilderFlag.FP16\n"
        "    thing = builder.create_network(1)\n"
        "    for item in registry.all_creators: pass\n"
        "class M(trt.IProgressMonitor):\n"
        "    def phase_start(self): pass\n"
    )
    assert use.names - {"BuilderFlag"} == {
        "BuilderFlag.FP16",
        "Builder.create_network",
        "IBuilderConfig.int8_calibrator",
        "IPluginRegistry.all_creators",
        "IProgressMonitor",
        "IProgressMonitor.phase_start",
    }
    assert use.undeclared == {"stray", "thing", "item"}


@pytest.mark.parametrize("version", [*TENSORRT, RTX])
def test_our_functions_run(probes: dict[str, dict[str, Any]], version: str) -> None:
    ours = probes[version]["ours"]
    if version != RTX:
        assert ours["version"] == [int(part) for part in version.split(".")]
    assert ours["network_flags"] == 1 << ours["strongly_typed"]
    assert ours["fields"] == [["i", "INT32", 2], ["f", "FLOAT32", 1], ["s", "CHAR", 3]]
    assert ours["arrays"][2] == [97, 98, 0]
    assert ours["collection"] == 3
    assert ours["logged"] == [["ERROR", "words"]]
    assert [event["text"] for event in ours["progress"]] == ["outer (2 steps)"]
    assert ours["goes_on"] is True


@pytest.mark.parametrize("version", TENSORRT)
def test_tensorrt_without_its_libraries(probes: dict[str, dict[str, Any]], version: str) -> None:
    ours = probes[version]["ours"]
    assert ours["targets"] == []
    assert ours["hardware"] == "AMPERE_PLUS"
    assert ours["builder"].startswith("UsageError: the builder of TensorRT ")


def test_rtx_for_real(probes: dict[str, dict[str, Any]]) -> None:
    ours = probes[RTX]["ours"]
    assert {"sm75", "sm86", "sm120"} <= set(ours["targets"])
    assert ours["builder"] == "made"
