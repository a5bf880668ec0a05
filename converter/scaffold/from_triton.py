"""Drafts an operator from a Triton kernel and a PyTorch function with the same computation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.compile.triton_kernels.declaration_checks import DeclarationError
from trtsmith.converter.compile.triton_kernels.kernel_plan import plan_of
from trtsmith.converter.operators.module_files import load_module
from trtsmith.converter.operators.sources import OperatorSource
from trtsmith.converter.scaffold.draft import Draft
from trtsmith.converter.scaffold.from_torch import draft_of_function
from trtsmith.converter.scaffold.names import Names
from trtsmith.converter.scaffold.torch_source import standalone_source
from trtsmith.importers.problem import Problem
from trtsmith.importers.triton_kernel import TritonKernel

_FORM = "MODULE:KERNEL or FILE.py:KERNEL"
_DECLARATION = "TRITON"
"""What a package's kernel file calls its TritonKernel."""


def draft_of_kernel(names: Names, spec: str, reference: str, examples: Mapping[str, str]) -> Draft:
    """Drafts an operator from a kernel. Raises UsageError if that is not possible.

    spec: "module:kernel" or "FILE.py:kernel", a function under @triton.jit or its TritonKernel. reference, examples: as
    draft_of_function takes them; those of the TritonKernel where they are not given.
    """
    where = f"--from-triton {spec}"
    module, name = _named(spec, where)
    declared, called = _declaration(module, name, where)
    file = Path(str(module.__file__))
    drafted = draft_of_function(
        names, reference or _reference(declared, called, file, where), {**declared.examples, **examples}
    )
    _check(drafted, declared, called, where)
    source = standalone_source(file, where)
    if getattr(module, _DECLARATION, None) is not declared:
        source = source.rstrip() + f"\n\n{_DECLARATION} = {called}\n".encode()
    origin = f"--from-triton, from {name}, and {drafted.origin}"
    return replace(drafted, triton=source, origin=origin)


def _named(spec: str, where: str) -> tuple[ModuleType, str]:
    place, colon, name = spec.rpartition(":")
    if not colon or not place or not name.isidentifier():
        raise UsageError(f"{spec!r} names no kernel", where, _FORM, "--from-triton my_kernels.py:my_kernel")
    file = Path(*place.split(".")).with_suffix(".py")
    found = str(file) if not place.endswith(".py") and file.is_file() else place
    try:
        module = load_module(OperatorSource(found, where))
    except UsageError as error:
        expected = "a module that can be imported, on a machine without a GPU, too; Triton must be installed"
        raise UsageError(
            [Problem(p.what, f"{where}: {p.where}", expected, p.fix) for p in error.problems]
        ) from error
    if getattr(module, name, None) is None:
        kernels = ", ".join(key for key, value in vars(module).items() if _is_kernel(value)) or "none"
        raise UsageError(
            f"the module has no kernel {name!r}",
            where,
            f"a function under @triton.jit: {kernels}",
            "correct the name",
        )
    return module, name


def _is_kernel(value: Any) -> bool:
    from triton.runtime.jit import JITFunction

    return isinstance(value, JITFunction)


def _declaration(module: ModuleType, name: str, where: str) -> tuple[TritonKernel, str]:
    """The kernel's TritonKernel, and its name in the module."""
    found = getattr(module, name)
    declared = {key: value for key, value in vars(module).items() if isinstance(value, TritonKernel)}
    for key, value in declared.items():
        if found is value or found is value.kernel:
            if _is_kernel(value.kernel):
                return value, key
            found = value.kernel
            break
    if not _is_kernel(found):
        raise UsageError(
            f"{name!r} is a {type(found).__name__}",
            where,
            "a function under @triton.jit, without @triton.autotune or @triton.heuristics, or its TritonKernel",
            "name the function itself; tunings=(Tuning(...), ...) says with which constants it is compiled",
        )
    constants = [p.name for p in found.params if p.is_constexpr]
    sizes = [p.name for p in found.params if not p.is_constexpr]
    raise UsageError(
        f"no TritonKernel says how the kernel {name} is launched",
        where,
        f"a TritonKernel of it in {Path(str(module.__file__)).name}, which says what its parameters "
        f"{', '.join(sizes)} get",
        f"from trtsmith.importers.triton_kernel import TritonKernel; {_DECLARATION} = TritonKernel(kernel={name}, "
        f'grid="...", arguments={{"{sizes[-1] if sizes else "n"}": "x.shape[0]"}}, '
        f"constants={{{', '.join(f'{c!r}: 256' for c in constants)}}})",
    )


def _reference(declared: TritonKernel, called: str, file: Path, where: str) -> str:
    place, _, function = declared.reference.rpartition(":")
    if not function:
        raise UsageError(
            "the kernel has no reference in PyTorch",
            where,
            "the same in PyTorch: a function of tensors, by which the operator is defined and the kernel tested",
            f'--from-torch FILE.py:FUNCTION, or reference="FILE.py:FUNCTION" in {called}',
        )
    beside = file.parent / place
    return f"{beside}:{function}" if place.endswith(".py") and beside.is_file() else declared.reference


def _check(drafted: Draft, declared: TritonKernel, called: str, where: str) -> None:
    """UsageError where the kernel's declaration does not fit the operator that the PyTorch function makes."""
    op = drafted.operator()
    try:
        plan_of(op, declared)
    except DeclarationError as error:
        ports = ", ".join(port.name for port in (*op.inputs, *op.outputs))
        fields = ", ".join(field.name for field in op.fields) or "none"
        raise UsageError(
            error.what,
            f"{where}: {called}, {error.where}",
            f"{error.expected}; its ports are {ports}, its fields {fields}",
            error.fix,
        ) from error
