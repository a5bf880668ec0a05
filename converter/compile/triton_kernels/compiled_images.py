"""Compiles one Triton kernel for everything that its plan names. No other module uses Triton's compiler."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trtsmith.converter.compile.triton_kernels.binding_source import Compiled
from trtsmith.converter.compile.triton_kernels.declaration_checks import DeclarationError
from trtsmith.converter.compile.triton_kernels.kernel_plan import (
    ImageTarget,
    KernelPlan,
    Variant,
)

_ALIGNMENT = 64
"""Of a binary in the file of all."""

_SHARED_BYTES = {
    75: 65536,
    80: 166912,
    86: 101376,
    87: 166912,
    89: 101376,
    90: 232448,
    100: 232448,
    103: 232448,
}
"""The most shared memory that a block can have, by compute capability (CUDA C++ Programming Guide 13.0, table 29)."""

_LEAST_SHARED_BYTES = 101376
"""Of what is not listed: 12.0 and 12.1, and whatever runs the PTX."""

_PARAMETER = re.compile(r"\.param\s+\.(\w+)")
_PTX_TYPES = {"pointer": "u64", "int64": "u64", "int32": "u32", "float32": "f32"}

_PTX_ISA = 80
"""PTX is written for CUDA 12.0, so that every driver that can launch it can compile it."""


@dataclass(frozen=True)
class Images:
    """All binaries, and the file that holds them. targets: those compiled; notes: reasons for those left out."""

    targets: tuple[ImageTarget, ...]
    compiled: tuple[Compiled, ...]
    data: bytes
    notes: tuple[str, ...]


def compile_images(
    plan: KernelPlan, targets: Sequence[ImageTarget], announce: Callable[[str], None]
) -> Images:
    """Compiles for all targets. Raises DeclarationError with the first thing that a kernel must not do.

    The PTX for later GPUs is left out, with a note, where the kernel needs what only one GPU has.
    """
    data = bytearray()
    compiled: list[Compiled] = []
    notes: list[str] = []
    taken: list[ImageTarget] = []
    for target in targets:
        announce(f"compiling {plan.kernel.kernel.__name__} for {_name(target)}")
        try:
            made = [(variant, _compile(plan, variant)) for variant in plan.variants((target,))]
        except DeclarationError as error:
            if not target.ptx or not taken:
                raise
            notes.append(f"no PTX for later GPUs: {error.what}")
            continue
        if not made:
            raise DeclarationError(
                f"no tuning is for {_name(target)}",
                "tunings",
                "one for every architecture",
                "add one without `since`",
            )
        taken.append(target)
        for variant, (binary, name, warps, shared) in made:
            data += bytes(-len(data) % _ALIGNMENT)
            compiled.append(Compiled(variant, name, len(data), warps, shared))
            data += binary
    return Images(tuple(taken), tuple(compiled), bytes(data), tuple(notes))


def _name(target: ImageTarget) -> str:
    capability = f"{target.capability // 10}.{target.capability % 10}"
    return f"later GPUs (PTX of {capability})" if target.ptx else f"compute capability {capability}"


def _compile(plan: KernelPlan, variant: Variant) -> tuple[bytes, str, int, int]:
    """A binary, the kernel's name in it, its warps and its bytes of shared memory."""
    from triton import compile as compile_kernel
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    way = plan.kernel.ways[variant.tuning]
    absent = {a.name: None for a in plan.arguments if a.optional and a.port >= variant.nb_inputs}
    constants = {**way.constants, **absent}
    signature = {a.name: a.type_in(variant.types, plan.op) for a in plan.arguments if a.name not in absent}
    hinted = {
        (plan.parameters.index(a.name),): [["tt.divisibility", 16]]
        for a in plan.arguments
        if variant.aligned and a.name not in absent and (a.kind == "pointer" or a.often16)
    }
    source = ASTSource(
        plan.kernel.kernel,
        {name: signature.get(name, "constexpr") for name in plan.parameters},
        constexprs=constants,
        attrs=hinted,
    )
    options: dict[str, Any] = {"num_warps": way.num_warps, "num_stages": way.num_stages}
    if variant.target.ptx:
        options["ptx_version"] = _PTX_ISA
    target = GPUTarget("cuda", variant.target.capability, 32)
    try:
        made = compile_kernel(source, target=target, options=options)
    except Exception as error:  # of the kernel: whatever Triton, LLVM or ptxas have to say of it
        raise _compile_error(plan, variant, error) from error
    _check(plan, variant, made, tuple(signature))
    binary = made.asm["ptx"].encode() + b"\0" if variant.target.ptx else made.asm["cubin"]
    return binary, made.metadata.name, made.metadata.num_warps, made.metadata.shared


def _compile_error(plan: KernelPlan, variant: Variant, error: Exception) -> DeclarationError:
    kernel = plan.kernel.kernel
    cause: BaseException = error
    while cause.__cause__ is not None and hasattr(error, "node"):
        cause = cause.__cause__
    text = str(getattr(error, "error_message", None) or cause).strip() or type(cause).__name__
    last = [line.strip() for line in text.splitlines() if line.strip()]
    said = last[-1] if last else type(error).__name__
    line = getattr(getattr(error, "node", None), "lineno", None)
    where = kernel.__name__
    if line is not None:
        first = kernel.fn.__code__.co_firstlineno
        source = str(getattr(error, "src", "") or "").splitlines()
        code = source[line - 1].strip() if 0 < line <= len(source) else ""
        # Triton counts from the line of `def`, which stands below the decorators.
        above = next(
            (i for i, text in enumerate(_lines_of(kernel, first)) if text.lstrip().startswith("def ")), 0
        )
        where += f", line {first + above + line - 1}" + (f": `{code}`" if code else "")
    return DeclarationError(
        f"the Triton kernel does not compile for {variant}: {said}",
        where,
        "a kernel that Triton compiles for every type and every architecture",
        "mend the kernel; a GPU is not needed to try again",
    )


def _lines_of(kernel: Any, first: int) -> list[str]:
    lines = Path(kernel.fn.__code__.co_filename).read_text().splitlines()
    return lines[first - 1 :]


def _check(plan: KernelPlan, variant: Variant, made: Any, passed: Sequence[str]) -> None:
    """A launch knows how to pass parameters and shared memory, and nothing else that Triton can ask for."""
    metadata = made.metadata
    asked = {
        "scratch memory": metadata.global_scratch_size,
        "memory of Triton's profiler": metadata.profile_scratch_size,
        "a cooperative grid": metadata.launch_cooperative_grid,
        "programmatic dependent launch": metadata.launch_pdl,
        "more than one block in a cluster": metadata.num_ctas != 1,
        "tensor descriptors from the host": bool(getattr(metadata, "tensordesc_meta", None)),
    }
    for what, needed in asked.items():
        if needed:
            raise DeclarationError(
                f"the kernel needs {what} for {variant}, which a plugin does not give it",
                metadata.name,
                "a kernel that needs its parameters and shared memory alone",
                "write it without, or in CUDA",
            )
    most = _SHARED_BYTES.get(variant.target.capability, _LEAST_SHARED_BYTES)
    if metadata.shared > most:
        raise DeclarationError(
            f"the kernel needs {metadata.shared} bytes of shared memory for {variant}",
            f"tunings[{variant.tuning}]" if plan.kernel.tunings else "constants, num_stages",
            f"at most {most}",
            "take smaller blocks or fewer stages, with a tuning for this type or architecture (dtypes, since)",
        )
    entry = re.search(rf"\.entry\s+{re.escape(metadata.name)}\s*\((.*?)\)", made.asm["ptx"], re.DOTALL)
    found = [] if entry is None else _PARAMETER.findall(entry.group(1))
    kinds = {argument.name: argument.kind for argument in plan.arguments}
    expected = [*(_PTX_TYPES[kinds[name]] for name in passed), "u64", "u64"]
    if found != expected:
        raise DeclarationError(
            f"this Triton ({metadata.triton_version}) passes the kernel's parameters in another way",
            f"parameters {', '.join(found)}; {', '.join(expected)} are passed",
            "a version of Triton whose kernels take their parameters, and two pointers of its own",
            "install the Triton of trtsmith's extra `triton`",
        )
