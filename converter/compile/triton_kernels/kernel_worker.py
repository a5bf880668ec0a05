"""Child side of kernel_build.py: reads an operator and its Triton kernel, compiles it, and writes the binding.

All code of the user that a build runs is run here: the kernel's module, the operator's definition and its rules.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from trtsmith.converter.base.errors import ConversionError, UsageError
from trtsmith.converter.compile.definitions.traced_rules import NotTracedError, trace_rules
from trtsmith.converter.compile.package_folder import find_package
from trtsmith.converter.compile.triton_kernels.binding_source import binding_source
from trtsmith.converter.compile.triton_kernels.declaration_checks import DeclarationError
from trtsmith.converter.compile.triton_kernels.kernel_plan import (
    KernelPlan,
    plan_of,
    targets_of,
)
from trtsmith.converter.engine.child.events import Events
from trtsmith.converter.engine.child.serve import serve
from trtsmith.converter.operators.loading import load_package
from trtsmith.converter.operators.sources import OperatorSource
from trtsmith.importers.opdef import OpDef
from trtsmith.importers.problem import Problem
from trtsmith.importers.triton_kernel import TritonKernel

DECLARATION = "TRITON"
"""What a kernel's module calls its TritonKernel."""

_FOREIGN = (
    "TRITON_INTERPRET",
    "TRITON_KERNEL_OVERRIDE",
    "TRITON_OVERRIDE_ARCH",
    "TRITON_KERNEL_DUMP",
    "TRITON_DEBUG",
)
"""Settings of Triton that would compile something else."""


def build(request: str, events: Events, log_path: Path) -> dict[str, Any]:
    """Compiles one kernel. Returns {"notes", "images", "bytes"} of the files in the request's folder."""
    del log_path
    asked = json.loads(request)
    folder, file = Path(asked["folder"]), Path(asked["kernel"])
    _settle(folder, asked["cuda"])
    events.phase("importing Triton")
    _require_triton()
    events.phase(f"importing {file.name}")
    kernel = _declaration(file, run_module(file))
    op = _operator(asked)
    plan = _planned(op, kernel, file)
    events.phase(f"following the rules of {op.name}")
    try:
        rules = trace_rules(op)
    except NotTracedError as error:
        raise UsageError(
            f"{op.name}'s rules cannot be written in C++: {error}",
            f"OpDef {op.name}",
            "rules that compute with sizes and fields by + - * // and compare them",
            "write them so, or a binding by hand",
        ) from error
    from trtsmith.converter.compile.triton_kernels.compiled_images import compile_images

    try:
        images = compile_images(plan, targets_of(asked["architectures"]), events.phase)
    except DeclarationError as error:
        raise ConversionError(_problem(error, file)) from error
    data = folder / f"{op.snake_name}_triton.bin"
    source = binding_source(plan, rules, images.targets, images.compiled, data)
    _write(data, images.data)
    _write(folder / f"{op.snake_name}_triton.cpp", source.encode())
    return {"notes": list(images.notes), "images": len(images.compiled), "bytes": len(images.data)}


def _settle(folder: Path, cuda: int) -> None:
    """Remove what Triton reads from the environment, so that it cannot change the compiled code.

    cuda: the toolkit's major version. A library of CUDA 12 is to load with drivers of CUDA 12, and so must its binaries:
    Triton has two assemblers, and takes that of CUDA 13 from compute capability 9.0 on.
    """
    for name in _FOREIGN:
        os.environ.pop(name, None)
    os.environ["TRITON_CACHE_DIR"] = str(folder / f"triton-cache-{cuda}")
    os.environ["TRITON_DISABLE_LINE_INFO"] = "1"  # paths of this machine have no place in a library
    os.environ["TRITON_DEFAULT_FP_FUSION"] = "1"  # as 3.9 does by itself, with a warning
    sys.dont_write_bytecode = True
    found = importlib.util.find_spec("triton")
    if cuda < 13 and found is not None and found.origin is not None:
        older = Path(found.origin).parent / "backends" / "nvidia" / "bin" / "ptxas"
        if older.is_file():
            os.environ["TRITON_PTXAS_BLACKWELL_PATH"] = str(older)


def _require_triton() -> None:
    try:
        import triton  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"Triton cannot be imported: {error}",
            "a kernel written in Triton",
            "the package `triton`, which compiles it; it is needed for nothing else",
            "pip install 'trtsmith[triton]', or pip install triton",
        ) from error


def run_module(file: Path) -> ModuleType:
    """Runs a kernel's module. Raises UsageError for whatever it raises."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise UsageError("there is no such module", str(file), "a file of Python", "correct the path")
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module  # Triton finds a kernel's globals by its module
    sys.path.insert(0, str(file.parent))
    try:
        spec.loader.exec_module(module)
    except BaseException as error:  # SystemExit, too: it is the module that must not end this process
        raise UsageError(
            f"the kernel's module raised {type(error).__name__}: {error}",
            f"{file}{_line_in(file, error)}",
            "a module that can be imported, on a machine without a GPU, too",
            "correct it, and move code that needs a GPU into a function",
        ) from error
    return module


def _line_in(file: Path, error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f", line {error.lineno}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    return f", line {frames[-1].lineno}" if frames else ""


def _declaration(file: Path, module: ModuleType) -> TritonKernel:
    from triton.runtime.jit import JITFunction

    found = getattr(module, DECLARATION, None)
    if not isinstance(found, TritonKernel):
        said = "there is no" if found is None else f"a {type(found).__name__} is called"
        raise UsageError(
            f"the module does not say how its kernel is launched: {said} {DECLARATION}",
            str(file),
            f"{DECLARATION} = TritonKernel(kernel=..., grid=..., arguments=..., constants=...)",
            "from trtsmith.importers.triton_kernel import TritonKernel, and declare it",
        )
    if not isinstance(found.kernel, JITFunction):
        raise UsageError(
            f"{DECLARATION}'s kernel is a {type(found.kernel).__name__}, not a function under @triton.jit",
            str(file),
            "the function under @triton.jit, without @triton.autotune or @triton.heuristics",
            "name the function itself; tunings=(Tuning(...), ...) says with which constants it is compiled",
        )
    return found


def _operator(asked: Mapping[str, Any]) -> OpDef:
    """The operator that the kernel is said to compute."""
    package = find_package(Path(asked["root"]))
    operators = load_package(OperatorSource(str(package.module), f"op build {package.root}")).operators
    found = next((op for op in operators if op.name == asked["operator"]), None)
    if found is None:
        raise UsageError(
            f"no definition describes the operator {asked['operator']}",
            str(package.list_file),
            f"one of OPERATORS: {', '.join(op.name for op in operators) or 'none'}",
            "correct the name, or write its OpDef",
        )
    return found


def _planned(op: OpDef, kernel: TritonKernel, file: Path) -> KernelPlan:
    try:
        return plan_of(op, kernel)
    except DeclarationError as error:
        raise UsageError(_problem(error, file)) from error


def _problem(error: DeclarationError, file: Path) -> Problem:
    return Problem(error.what, f"{file}: {error.where}", error.expected, error.fix)


def _write(path: Path, data: bytes) -> None:
    """Whole or not at all, and not anew where it is the same: ninja looks at its time."""
    if path.is_file() and path.read_bytes() == data:
        return
    part = path.with_name(path.name + ".part")
    part.write_bytes(data)
    part.replace(path)


if __name__ == "__main__":
    serve(sys.argv[1:], build)
