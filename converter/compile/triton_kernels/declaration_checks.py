"""Checks the declaration of a Triton kernel against the kernel's parameters and the limits of a plugin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trtsmith.importers.opdef import TYPE_VARIABLES, Kind, OpDef
from trtsmith.importers.triton_kernel import TritonKernel

MOST_ARGUMENTS = 60
"""Of plugins_cpp/triton/launch.hpp, less what Triton adds itself."""


class DeclarationError(Exception):
    """A fault in a declaration. where: the part of it; expected and fix as in a Problem."""

    def __init__(self, what: str, where: str, expected: str, fix: str) -> None:
        super().__init__(what)
        self.what, self.where, self.expected, self.fix = what, where, expected, fix


def check_declaration(op: OpDef, kernel: TritonKernel, parameters: Sequence[str]) -> None:
    if op.data_dependent:
        raise DeclarationError(
            f"{op.name} has outputs whose sizes depend on values",
            f"OpDef {op.name}",
            "outputs whose shapes follow from input shapes and fields",
            "write its kernel in CUDA",
        )
    for field in op.fields:
        if field.kind is Kind.STRING or (field.kind.is_list and field.length is None):
            raise DeclarationError(
                f"field '{field.name}' is a {'string' if field.kind is Kind.STRING else 'list without a length'}",
                f"OpDef {op.name}",
                "integers, floats, and lists of them of a fixed length",
                "give it a length, or another kind",
            )
    if len(parameters) > MOST_ARGUMENTS:
        raise DeclarationError(
            f"the kernel has {len(parameters)} parameters",
            "kernel",
            f"at most {MOST_ARGUMENTS}",
            "join some of them",
        )
    if kernel.offsets not in ("int32", "int64"):
        raise DeclarationError(
            f"offsets is {kernel.offsets!r}", "offsets", '"int32" or "int64"', 'leave it out for "int32"'
        )
    known = {*kernel.arguments, *kernel.multiples_of_16, *(n for way in kernel.ways for n in way.constants)}
    extra = sorted(known - set(parameters))
    if extra:
        raise DeclarationError(
            f"the kernel has no parameter '{extra[0]}'",
            "arguments, constants, multiples_of_16",
            f"names of {', '.join(parameters)}",
            "correct the name, or leave it out",
        )
    _check_tunings(op, kernel)


def _check_tunings(op: OpDef, kernel: TritonKernel) -> None:
    for place, way in enumerate(kernel.ways):
        where = f"tunings[{place}]" if kernel.tunings else "constants, num_warps"
        for dtype in way.dtypes:
            if dtype not in TYPE_VARIABLES[op.key]:
                raise DeclarationError(
                    f"a tuning is for {dtype}, which {op.name} does not take",
                    where,
                    ", ".join(TYPE_VARIABLES[op.key]),
                    "name one of these",
                )
        warps = way.num_warps
        if type(warps) is not int or warps < 1 or warps > 32 or warps & (warps - 1):
            raise DeclarationError(
                f"num_warps is {warps!r}", where, "1, 2, 4, 8, 16 or 32", "take one of these"
            )
        for name, value in way.constants.items():
            if not isinstance(value, (bool, int, float, str)):
                raise DeclarationError(
                    f"constant '{name}' is a {type(value).__name__}",
                    where,
                    "a number, a truth value or a text",
                    "write it as one",
                )


def require_all_known(
    parameters: Sequence[str], sources: Mapping[str, str], constants: set[str], kernel: TritonKernel
) -> None:
    missing = [name for name in parameters if name not in sources and name not in constants]
    if missing:
        raise DeclarationError(
            f"nothing says what the kernel's parameter '{missing[0]}' gets"
            + (f", nor {', '.join(missing[1:])}" if missing[1:] else ""),
            "arguments",
            "for every parameter a port, a field, an expression of sizes, or a constant",
            f'arguments={{"{missing[0]}": "..."}}, or constants={{"{missing[0]}": ...}} if it is a tl.constexpr',
        )
    for place, way in enumerate(kernel.ways):
        without = sorted(constants - way.constants.keys())
        if without:
            raise DeclarationError(
                f"a tuning has no value for the constant '{without[0]}'",
                f"tunings[{place}]",
                "a value of every constant, in the tuning or in the kernel's constants",
                f'constants={{"{without[0]}": ...}}',
            )
    both = sorted(constants & sources.keys())
    if both:
        raise DeclarationError(
            f"'{both[0]}' is an argument and a constant",
            "arguments, constants",
            "one of the two",
            "leave it out of one",
        )
