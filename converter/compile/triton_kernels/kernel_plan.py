"""Decides what a Triton kernel is compiled for, and where each of its parameters comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeVar

from trtsmith.converter.compile.definitions.rule_source import field_member
from trtsmith.converter.compile.triton_kernels.declaration_checks import (
    DeclarationError,
    check_declaration,
    require_all_known,
)
from trtsmith.converter.compile.triton_kernels.launch_expressions import (
    ALLOWED,
    ExpressionError,
    LaunchScope,
    bare_name,
    condition,
    integers,
)
from trtsmith.importers.opdef import TYPE_VARIABLES, Kind, OpDef
from trtsmith.importers.triton_kernel import TritonKernel, Tuning

T = TypeVar("T")

TRITON_TYPES = {
    "float32": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "int32": "i32",
    "int64": "i64",
    "bool": "i1",
}
"""Triton's name of every type that a plugin's tensors can have."""

MOST_CONSTANTS = 8
"""Of plugins_cpp/triton/launch.hpp."""

PORTABLE = 89
"""The last compute capability whose PTX is good for all later ones: from 9.0 on, Triton compiles for one GPU exactly."""

_FIRST_EXACT = 90


@dataclass(frozen=True)
class ImageTarget:
    """The GPUs that one set of binaries is for. capability: without a point."""

    capability: int
    ptx: bool = False

    @property
    def exact(self) -> bool:
        """Whether it is machine code for this capability and no later one."""
        return not self.ptx and self.capability >= _FIRST_EXACT


def targets_of(architectures: Sequence[int]) -> tuple[ImageTarget, ...]:
    """Returns machine code for every architecture, and PTX for later GPUs."""
    wanted = sorted(set(architectures))
    portable = [capability for capability in wanted if capability <= PORTABLE]
    return (*map(ImageTarget, wanted), ImageTarget(portable[-1] if portable else PORTABLE, ptx=True))


@dataclass(frozen=True)
class Argument:
    """One parameter that a launch passes.

    kind:   "pointer", "int32", "int64" or "float32". port: place in (inputs, outputs), of a pointer.
    source: the C++ that gives its value; of a pointer "".
    often16: whether it mostly is a multiple of 16.
    """

    name: str
    kind: str
    source: str = ""
    port: int = -1
    optional: bool = False
    often16: bool = False

    def type_in(self, types: Mapping[str, str], op: OpDef) -> str:
        """Returns Triton's type of it, for dtypes of the type variables."""
        if self.kind == "pointer":
            return "*" + TRITON_TYPES[types[(*op.inputs, *op.outputs)[self.port].type]]
        return {"int32": "i32", "int64": "i64", "float32": "fp32"}[self.kind]


@dataclass(frozen=True)
class Variant:
    """The properties that one binary is compiled for. tuning: its place in the kernel's `ways`."""

    target: ImageTarget
    types: Mapping[str, str]
    nb_inputs: int
    tuning: int
    aligned: bool

    def __str__(self) -> str:
        dtypes = " ".join(dict.fromkeys(self.types.values()))
        return f"{dtypes}, compute capability {self.target.capability // 10}.{self.target.capability % 10}"


@dataclass(frozen=True)
class KernelPlan:
    """A checked declaration.

    grid, conditions: C++ of the three sizes, and of each tuning's `when`.
    constants:        names of those that expressions read, in the order of an image's table.
    """

    op: OpDef
    kernel: TritonKernel
    parameters: tuple[str, ...]
    arguments: tuple[Argument, ...]
    grid: tuple[str, str, str]
    conditions: tuple[str, ...]
    constants: tuple[str, ...]

    def variants(self, targets: Sequence[ImageTarget]) -> Iterator[Variant]:
        """Lists all variants to compile, for each target in turn."""
        variables = list(dict.fromkeys(p.type for p in (*self.op.inputs, *self.op.outputs)))
        least = sum(not port.optional for port in self.op.inputs)
        for target in targets:
            for dtypes in product(*(TYPE_VARIABLES[variable] for variable in variables)):
                types = dict(zip(variables, dtypes, strict=True))
                for nb_inputs in range(least, len(self.op.inputs) + 1):
                    for tuning in self._tunings(target, types[self.op.key]):
                        for aligned in (True, False):
                            yield Variant(target, types, nb_inputs, tuning, aligned)

    def _tunings(self, target: ImageTarget, dtype: str) -> Iterator[int]:
        for place, way in enumerate(self.kernel.ways):
            if target.capability >= way.since and (not way.dtypes or dtype in way.dtypes):
                yield place
                if not way.when:
                    return  # those after it are never taken


def plan_of(op: OpDef, kernel: TritonKernel) -> KernelPlan:
    """Plans the kernel by `plan_kernel`, from Triton's knowledge of its parameters."""
    annotations = {
        parameter.name: parameter.annotation_type
        for parameter in kernel.kernel.params
        if not parameter.is_constexpr and parameter.annotation_type
    }
    return plan_kernel(op, kernel, [parameter.name for parameter in kernel.kernel.params], annotations)


def plan_kernel(
    op: OpDef, kernel: TritonKernel, parameters: Sequence[str], annotations: Mapping[str, str]
) -> KernelPlan:
    """Checks a declaration against the kernel's parameters and the operator. Raises DeclarationError.

    annotations: the type that a parameter is annotated with, as Triton names it ("i64"), where it has one.
    """
    check_declaration(op, kernel, parameters)
    sources = dict(kernel.arguments)
    names = {port.name for port in (*op.inputs, *op.outputs)} | {field.name for field in op.fields}
    constants = {name for way in kernel.ways for name in way.constants}
    for name in parameters:
        if name not in sources and name not in constants and name in names:
            sources[name] = name
    require_all_known(parameters, sources, constants, kernel)
    scope = LaunchScope(op, _integer_parameters(op, sources), _integers_of_all(kernel.ways))
    arguments = tuple(
        _argument(op, kernel, name, sources[name], annotations.get(name, ""), scope)
        for name in parameters
        if name not in constants
    )
    grid = _in_part("grid", kernel.grid, lambda text: integers(text, scope, (1, 3)))
    conditions = tuple(
        _in_part(f"tunings[{i}].when", way.when, lambda text: condition(text, scope))
        for i, way in enumerate(kernel.ways)
    )
    if len(scope.used) > MOST_CONSTANTS:
        raise DeclarationError(
            f"expressions read {len(scope.used)} constants",
            "grid, arguments, when",
            f"at most {MOST_CONSTANTS}",
            "write some as numbers",
        )
    one = "int64_t{1}"
    full: tuple[str, ...] = (*grid, one, one)
    return KernelPlan(
        op,
        kernel,
        tuple(parameters),
        arguments,
        (full[0], full[1], full[2]),
        conditions,
        tuple(scope.used),
    )


def _integer_parameters(op: OpDef, sources: Mapping[str, str]) -> dict[str, str]:
    """Parameters that other expressions may name: those that are neither pointers nor floats."""
    ports = {port.name for port in (*op.inputs, *op.outputs)}
    return {name: text for name, text in sources.items() if text not in ports and name not in ports}


def _integers_of_all(ways: Sequence[Tuning]) -> frozenset[str]:
    """Constants that are integers in every way."""
    names = {name for way in ways for name in way.constants}
    return frozenset(name for name in names if all(type(way.constants.get(name)) is int for way in ways))


def _argument(
    op: OpDef, kernel: TritonKernel, name: str, text: str, annotation: str, scope: LaunchScope
) -> Argument:
    where = f'arguments["{name}"] = {text!r}'
    plain = _in_part(f'arguments["{name}"]', text, bare_name)
    ports = (*op.inputs, *op.outputs)
    if plain is not None and plain[1] is None and plain[0] in {port.name for port in ports}:
        place = next(i for i, port in enumerate(ports) if port.name == plain[0])
        return Argument(name, "pointer", port=place, optional=ports[place].optional)
    field = next((field for field in op.fields if plain is not None and field.name == plain[0]), None)
    if field is not None and field.kind in (Kind.FLOAT, Kind.FLOATS):
        return _float_argument(op, name, plain or ("", None), annotation, where)
    kind = kernel.offsets
    if annotation:
        if annotation not in ("i32", "i64"):
            raise _unusable_type(name, annotation, where, "tl.int32 or tl.int64")
        kind = "int64" if annotation == "i64" else "int32"
    (source,) = _in_part(f'arguments["{name}"]', text, lambda text: integers(text, scope))
    return Argument(name, kind, source, often16=name in kernel.multiples_of_16)


def _float_argument(
    op: OpDef, name: str, plain: tuple[str, int | None], annotation: str, where: str
) -> Argument:
    field, index = plain
    spec = op.field(field)
    if annotation not in ("", "fp32"):
        raise _unusable_type(name, annotation, where, "tl.float32")
    if (index is not None) != spec.kind.is_list or not 0 <= (index or 0) < (spec.length or 1):
        raise DeclarationError(
            f"field '{field}' is {'a list of ' + str(spec.length) if spec.kind.is_list else 'one float'}",
            where,
            f"{field}[0]" if spec.kind.is_list else field,
            "name one number",
        )
    return Argument(name, "float32", f"p.{field_member(field)}" + ("" if index is None else f"[{index}]"))


def _unusable_type(name: str, annotation: str, where: str, expected: str) -> DeclarationError:
    return DeclarationError(
        f"the kernel's parameter '{name}' is of type {annotation}, which a plugin cannot pass",
        where,
        f"{expected}, or no annotation",
        "take its annotation away, and convert inside the kernel",
    )


def _in_part(part: str, text: str, work: Callable[[str], T]) -> T:
    """What work gives; an ExpressionError becomes a DeclarationError about this part."""
    try:
        return work(text)
    except ExpressionError as error:
        raise DeclarationError(
            f"{part} is not an expression that can be computed: {error}",
            f"{part} = {text!r}",
            f"{ALLOWED}; in `when` also comparisons, and, or, not",
            "write it with these, as text",
        ) from error
