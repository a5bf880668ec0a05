"""The compiled libraries describe every operator exactly as its Python definition does."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from trtsmith.converter.engine import libraries
from trtsmith.converter.operators.library_manifest import manifest_entry
from trtsmith.converter.plugin.cases import contract_case
from trtsmith.converter.plugin.host.host import Host
from trtsmith.importers.opdef import TYPE_VARIABLES, OpDef
from trtsmith.importers.registry import OPS

V3, V2 = libraries.plugin_library(), libraries.plugin_library_v2()
LIBRARIES = pytest.mark.parametrize(
    ("path", "interface"), [(V3, "V3"), (V2, "V2DynamicExt")], ids=["V3", "V2DynamicExt"]
)


def manifest(path: Path) -> dict[str, Any]:
    function = ctypes.CDLL(str(path)).trtsmithManifest
    function.restype = ctypes.c_char_p
    document: dict[str, Any] = json.loads(function())
    return document


@LIBRARIES
def test_manifest_is_the_definitions(path: Path, interface: str) -> None:
    document = manifest(path)
    assert (document["library"], document["interface"]) == ("trtsmith", interface)
    assert document["cuda_architectures"]
    # Hopper's kernels are in machine code for 90a alone; without it others would run in their place, and only slower.
    hopper = [a for a in document["cuda_architectures"].split() if a.startswith("90") and a.endswith("-real")]
    assert hopper in ([], ["90a-real"])
    expected = [manifest_entry(op) for op in OPS if interface[:2] in op.interfaces]
    assert document["operators"] == expected
    assert all("minimum" in field for entry in expected for field in entry["fields"]), "C++ knows each range"


def tool(*arguments: str) -> str:
    if shutil.which(arguments[0]) is None:
        pytest.skip(f"{arguments[0]} is not there")
    return subprocess.run(arguments, capture_output=True, text=True, check=True).stdout


@LIBRARIES
def test_exports_are_what_tensorrt_looks_for_and_the_manifest(path: Path, interface: str) -> None:
    lines = tool("nm", "-D", "--defined-only", str(path)).splitlines()
    exported = {line.split()[-1] for line in lines}
    v2 = {"getPluginCreators"} if interface != "V3" else set()
    assert exported == {"getCreators", "setLoggerFinder", "trtsmithManifest"} | v2


@LIBRARIES
def test_no_tensorrt_and_no_cuda_runtime_is_needed(path: Path, interface: str) -> None:
    needed = [
        line.split("[")[1].rstrip("]")
        for line in tool("readelf", "-d", str(path)).splitlines()
        if "(NEEDED)" in line
    ]
    assert needed, interface
    allowed = (
        "libc.so",
        "libm.so",
        "libdl.so",
        "libpthread.so",
        "librt.so",
        "libgcc_s.so",
        "libstdc++.so",
        "ld-linux",
    )
    assert [name for name in needed if not name.startswith(allowed)] == []


@LIBRARIES
def test_no_folder_of_the_building_machine_is_searched(path: Path, interface: str) -> None:
    assert not {"(RUNPATH)", "(RPATH)"} & set(tool("readelf", "-d", str(path)).split()), interface


@LIBRARIES
def test_nothing_of_ours_runs_when_the_library_is_loaded(path: Path, interface: str) -> None:
    """What .init_array holds is gcc's frame_dummy, nvcc's registration of kernels and the CUDA runtime's own."""
    section = next(
        line.split("]")[1].split()
        for line in tool("readelf", "-SW", str(path)).splitlines()
        if ".init_array" in line
    )
    start, size = int(section[2], 16), int(section[4], 16)
    relocated = {}
    for line in tool("readelf", "-rW", str(path)).splitlines():
        words = line.split()
        if len(words) == 4 and words[2] == "R_X86_64_RELATIVE":
            relocated[int(words[0], 16)] = int(words[3], 16)
    initialisers = {relocated[address] for address in range(start, start + size, 8)}
    names: dict[int, list[str]] = {}
    for line in tool("nm", str(path)).splitlines():
        words = line.split()
        if len(words) == 3:
            names.setdefault(int(words[0], 16), []).append(words[2])
    if not names:
        pytest.skip("the library is stripped")
    called = sorted(name for address in initialisers for name in names.get(address, ["?"]))
    ours = [
        name
        for name in called
        if name != "frame_dummy" and "cudaRegisterAll" not in name and "cudart" not in name
    ]
    assert called and ours == [], interface


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_a_definition_says_whether_its_kernel_asks_for_a_workspace(op: OpDef) -> None:
    sizes = []
    with Host().open(libraries.plugin_library()) as library:
        (creator,) = (creator for creator in library.creators if creator.info.name == op.name)
        for small, dtype in product((case for case in op.cases if not case.large), TYPE_VARIABLES[op.key]):
            case = contract_case(op, small, op.dtypes(dtype))
            with creator.create(case.fields) as plugin:
                plugin.configure(case.inputs, case.outputs)
                sizes.append(plugin.workspace_size(case.inputs, case.outputs))
    assert sizes and any(sizes) == op.workspace
