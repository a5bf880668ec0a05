"""Triton kernels compiled ahead of time: the guide's example, its library, and kernels that fail.

Triton is a gigabyte, and no requirement of the tests: without it they are skipped. PYTHONPATH may name a folder that has it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.converter.plugin.fixtures import ROOT
from trtsmith.converter.base.errors import TrtsmithError
from trtsmith.converter.compile.triton_kernels import kernel_build
from trtsmith.converter.compile.triton_kernels.kernel_build import WORKER, architectures
from trtsmith.converter.compile.triton_kernels.kernel_plan import ImageTarget, targets_of
from trtsmith.converter.engine.builder.gpu import Gpu
from trtsmith.converter.engine.child.process import run_child

HAS_TRITON = importlib.util.find_spec("triton") is not None
needs_triton = pytest.mark.skipif(
    not HAS_TRITON, reason="Triton is not installed: pip install 'trtsmith[triton]'"
)

EXAMPLE = ROOT / "docs" / "examples" / "gated_recurrence"
KERNEL = "kernels/gated_recurrence_triton.py"
OPERATOR = "GatedRecurrence"

EM_CUDA = 190
SM_OF_OLD_FLAGS = 0xFF
"""Of an ELF file: NVIDIA's machine, and where the capability stands in its flags; newer assemblers shift it by 8 bits."""


def compile_text(folder: Path, text: str, wanted: tuple[int, ...] = (86,)) -> dict[str, object]:
    """The example with another kernel. Raises what is wrong with it."""
    package = folder / "package"
    shutil.copytree(EXAMPLE, package, ignore=shutil.ignore_patterns("build", "lib", "__pycache__"))
    (package / KERNEL).write_text(text)
    (folder / "made").mkdir()
    request = {"root": str(package), "operator": OPERATOR, "kernel": str(package / KERNEL), "cuda": 13}
    request |= {"folder": str(folder / "made"), "architectures": wanted}
    return run_child(WORKER, json.dumps(request), "tensorrt", timeout_s=300, log_path=folder / "log")


def changed(old: str, new: str) -> str:
    """The example's kernel with something else in a place."""
    text = (EXAMPLE / KERNEL).read_text()
    assert old in text
    return text.replace(old, new)


LOAD = "value = tl.load(x + at, mask=here, other=0.0)"
START = "state = tl.zeros"
WRONG = {
    "a name that is not there": (
        changed("tl.sigmoid(forget)", "tl.sigmoid(forgotten)"), 1, "forgotten is not defined", "line 4",
    ),
    "shapes that do not fit": (
        changed(LOAD, LOAD.replace("here", "row")), 1, "incompatible dimensions", "gated_recurrence, line",
    ),
    "a type that a GPU lacks": (
        changed("output.dtype.element_ty", "tl.float8e4nv"), 1, "type fp8e4nv not supported", "tl.float8e4nv",
    ),
    "no Python": (changed("blocks = tl", "blocks = = tl"), 2, "module raised SyntaxError", "_triton.py, line 2"),
    "a module that raises": (changed("TRITON =", "1 / 0\nTRITON ="), 2, "raised ZeroDivisionError", "_triton.py, line"),
    "a module that ends": (changed("TRITON =", "raise SystemExit\nTRITON ="), 2, "raised SystemExit", "_triton.py, line"),
    "a kernel that is not there": (
        changed("kernel=gated_recurrence", "kernel=recurrence"), 2, "name 'recurrence' is not defined", "line",
    ),
    "no declaration": (changed("TRITON =", "OTHER ="), 2, "there is no TRITON", "_triton.py"),
    "a function of Python": (
        changed("kernel=gated_recurrence", "kernel=len"), 2, "not a function under @triton.jit", "_triton.py",
    ),
    "a grid that is a function": (
        changed('grid="x.shape[0] * ceil_div(channels, BLOCK_CHANNELS)"', "grid=lambda meta: (1,)"), 2,
        "it is of type function, not text", "grid = ",
    ),
    "a constant that is missing": (
        changed('"BLOCK_STEPS": 64, "BLOCK_CHANNELS": 64', '"BLOCK_STEPS": 64'), 2,
        "no value for the constant 'BLOCK_CHANNELS'", "tunings[2]",
    ),
    "scratch memory": (
        changed(START, "d = tl.make_tensor_descriptor(x, [steps, channels], [channels, 1], [16, 16])\n"
                "    state = tl.sum(d.load([0, 0]).to(tl.float32)) + tl.zeros"),
        1, "the kernel needs scratch memory", "gated_recurrence",
    ),
    "too much shared memory": (
        changed(START, "m = tl.arange(0, 128)[:, None]\n    k = m * 256 + tl.arange(0, 256)[None, :]\n"
                "    a = tl.zeros([128, 128], tl.float32)\n"
                "    for i in range(0, steps):\n"
                "        a = tl.dot(tl.load(x + k + i), tl.trans(tl.load(gate + k + i)), a)\n"
                "    state = tl.sum(a) + tl.zeros"),
        1, "bytes of shared memory", "tunings[",
    ),
}  # fmt: skip
"""A kernel, the exit code, and words of the message and of its place."""


@needs_triton
@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_with_a_kernel_is_said_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    text, exit_code, what, where = WRONG[name]
    with pytest.raises(TrtsmithError) as refused:
        compile_text(tmp_path, text, (86,) if "float8" in text else (90,))  # 9.0 has float8
    problem = refused.value.problems[0]
    assert refused.value.exit_code == exit_code
    assert what in problem.what and where in problem.where, problem
    assert problem.expected and problem.fix
    assert [path.name for path in (tmp_path / "made").iterdir() if path.is_file()] == []


@needs_triton
def test_a_line_is_that_of_the_file(tmp_path: Path) -> None:
    text = changed("tl.sigmoid(forget)", "tl.sigmoid(forgotten)")
    with pytest.raises(TrtsmithError) as refused:
        compile_text(tmp_path, text)
    number = next(i for i, line in enumerate(text.splitlines(), 1) if "forgotten" in line)
    assert f"line {number}: `kept, added" in refused.value.problems[0].where


def test_without_triton_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shadow = tmp_path / "shadow"
    shadow.mkdir()
    (shadow / "triton.py").write_text("raise ImportError('no Triton in this test')\n")
    monkeypatch.setenv("PYTHONPATH", str(shadow), prepend=os.pathsep)
    with pytest.raises(TrtsmithError) as refused:
        compile_text(tmp_path, (EXAMPLE / KERNEL).read_text())
    (problem,) = refused.value.problems
    assert refused.value.exit_code == 2
    assert "no Triton in this test" in problem.what and "trtsmith[triton]" in problem.fix


def test_architectures_are_those_of_the_other_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    for gpus, found in (([], (86,)), ([(6, 0)], (86,)), ([(9, 0), (8, 9), (6, 0)], (89, 90))):
        monkeypatch.setattr(
            kernel_build, "find_gpus", lambda gpus=gpus: tuple(Gpu("one", one) for one in gpus)
        )
        assert architectures("") == found
    assert architectures("release") == (75, 80, 86, 89, 90, 100, 120)
    assert architectures("sm_86, 90a;86") == (86, 90)


def test_ptx_is_of_the_last_architecture_that_is_not_exact() -> None:
    exact = (ImageTarget(80), ImageTarget(86), ImageTarget(90))
    assert targets_of((90, 86, 80)) == (*exact, ImageTarget(86, ptx=True))
    assert targets_of((90, 100)) == (ImageTarget(90), ImageTarget(100), ImageTarget(89, ptx=True))
    assert [target.exact for target in targets_of((86, 90))] == [False, True, False]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, built as its guide says."""
    folder = tmp_path_factory.mktemp("triton") / "gated_recurrence"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("build", "lib", "__pycache__"))
    built = trtsmith("op", "build", str(folder), "--v2", "--architectures", "75,86,90")
    assert built.returncode == 0, built.stderr
    return folder


def trtsmith(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "trtsmith", *arguments], capture_output=True, text=True)


def machine_code(library: Path) -> Counter[int]:
    """How many binaries for each compute capability are in a file."""
    data = library.read_bytes()
    found: Counter[int] = Counter()
    for match in re.finditer(b"\x7fELF", data):
        header = data[match.start() : match.start() + 64]
        if struct.unpack_from("<H", header, 18)[0] == EM_CUDA:
            flags = struct.unpack_from("<I", header, 48)[0]
            low, next_byte = flags & SM_OF_OLD_FLAGS, flags >> 8 & SM_OF_OLD_FLAGS
            found[low if low >= 50 else next_byte] += 1
    return found


@needs_triton
def test_every_library_has_machine_code_for_each_architecture_and_ptx(package: Path) -> None:
    for library in sorted((package / "gated_recurrence" / "lib").iterdir()):
        # Three types, with and without a state, one and one tuning, aligned and not.
        assert machine_code(library) == {75: 24, 86: 24, 90: 24}
        data = library.read_bytes()
        assert set(re.findall(rb"\.target \w+", data)) == {b".target sm_86"}
        assert set(re.findall(rb"\.version [\d.]+", data)) == {b".version 8.0"}
        assert str(package).encode() not in data, "paths of this machine have no place in a library"


@needs_triton
def test_the_library_needs_no_driver_and_no_triton(package: Path) -> None:
    for library in (package / "gated_recurrence" / "lib").iterdir():
        load = "import ctypes, os, sys; ctypes.CDLL(sys.argv[1], os.RTLD_NOW)"
        subprocess.run([sys.executable, "-I", "-S", "-c", load, str(library)], check=True)
        needed = subprocess.run(["ldd", str(library)], capture_output=True, text=True, check=True).stdout
        assert "libcuda" not in needed and "python" not in needed


@needs_triton
def test_the_examples_own_tests_pass(package: Path) -> None:
    """Definition, expansion, PyTorch form, and the plugin's contract; with a GPU also the kernel, in every type."""
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", str(package)], capture_output=True, text=True, cwd=package
    )
    assert ran.returncode == 0, ran.stdout


@needs_triton
def test_a_build_without_a_change_makes_nothing_anew(package: Path) -> None:
    made = {
        path: path.stat().st_mtime_ns
        for path in (package / "build" / "triton").iterdir()
        if path.suffix != ".log"
    }
    again = trtsmith("op", "build", str(package), "--v2", "--architectures", "75,86,90")
    assert again.returncode == 0, again.stderr
    for path, time in made.items():
        if path.suffix in (".cpp", ".bin"):
            assert path.stat().st_mtime_ns == time


@needs_triton
def test_a_kernel_that_breaks_leaves_the_library_as_it_was(package: Path) -> None:
    library = package / "gated_recurrence" / "lib" / "libgated_recurrence_plugins.so"
    before, text = library.read_bytes(), (package / KERNEL).read_text()
    (package / KERNEL).write_text(text.replace("tl.sigmoid(forget)", "tl.sigmoid(forgotten)"))
    try:
        broken = trtsmith("op", "build", str(package))
    finally:
        (package / KERNEL).write_text(text)
    assert broken.returncode == 1
    assert "forgotten is not defined" in broken.stderr and "Traceback" not in broken.stderr
    assert library.read_bytes() == before
