"""Derives contract and kernel cases of trtsmith's plugins from their definitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product

import numpy as np

from trtsmith.converter.plugin.contract import ContractCase, GpuCase
from trtsmith.converter.plugin.host.plugin_values import TensorDesc, array_dtype
from trtsmith.importers.opdef import TYPE_VARIABLES, Arrays, Case, OpDef
from trtsmith.importers.registry import by_name, operators

SEED = 7

Reference = Callable[[OpDef, Case, str, Arrays], Mapping[str, np.ndarray]]
"""Right outputs of (operator, case, dtype of its key, inputs in that dtype), in float64."""


def contract_cases(ops: Iterable[OpDef] | None = None) -> tuple[ContractCase, ...]:
    """Makes one contract case for each small case of the operators, in the first dtype of their keys and int64.

    ops: None for all that are known.
    """
    return tuple(
        contract_case(op, case, op.dtypes(TYPE_VARIABLES[op.key][0]))
        for op in (operators() if ops is None else ops)
        for case in op.cases
        if not case.large
    )


def compute_reference(op: OpDef, case: Case, dtype: str, inputs: Arrays) -> Mapping[str, np.ndarray]:
    """Computes the outputs by the operator's own reference."""
    return op.reference(case.fields, inputs)


def gpu_cases(
    name: str, *, large: bool = True, reference: Reference = compute_reference
) -> Iterator[GpuCase]:
    """Makes every case of the named operator in every dtype of its type variables; none for other plugins.

    reference: asked once for each case and dtype of the key, since the dtype of indices does not change their values.
    """
    op = by_name().get(name)
    if op is not None:
        yield from in_all_dtypes(op, [case for case in op.cases if large or not case.large], reference)


def in_all_dtypes(op: OpDef, cases: Iterable[Case], reference: Reference) -> Iterator[GpuCase]:
    """Makes the given cases of an operator in every dtype of its type variables."""
    for case in cases:
        generated = case.inputs(np.random.default_rng(SEED))
        expected: dict[str, Mapping[str, np.ndarray]] = {}
        for types in type_choices(op):
            inputs = cast_inputs(op, generated, types)
            dtype = types[op.key]
            if dtype not in expected:
                # Computed from the inputs as the kernel gets them: their rounding is not the kernel's error.
                expected = {dtype: reference(op, case, dtype, inputs)}
            yield _gpu_case(op, case, inputs, types, expected[dtype])


def in_dtypes(
    op: OpDef, case: Case, types: Mapping[str, str], reference: Reference = compute_reference
) -> GpuCase:
    """Makes one case of an operator in one choice of dtypes."""
    inputs = cast_inputs(op, case.inputs(np.random.default_rng(SEED)), types)
    return _gpu_case(op, case, inputs, types, reference(op, case, types[op.key], inputs))


def cast_inputs(
    op: OpDef, generated: Mapping[str, np.ndarray], types: Mapping[str, str]
) -> dict[str, np.ndarray]:
    """Casts the case's inputs to the dtypes of a choice of type variables, in port order. Numbers become arrays, too:
    numpy makes them of the arithmetic of scalars.
    """
    # What half precision cannot hold becomes infinite, and a NaN becomes some integer: cases with such values mean it.
    with np.errstate(over="ignore", invalid="ignore"):
        return {
            port.name: np.array(generated[port.name], array_dtype(types[port.type]))
            for port in op.inputs
            if port.name in generated
        }


def contract_case(op: OpDef, case: Case, types: Mapping[str, str]) -> ContractCase:
    """Makes one case of an operator in one choice of dtypes."""
    choices = type_choices(op)
    inputs = cast_inputs(op, case.inputs(np.random.default_rng(SEED)), types)
    known = {name: tuple(value.shape) for name, value in inputs.items()}
    # Until a plugin has run, its bound stands for a size that depends on values.
    most = op.bounds(case.fields, known)
    shapes = op.shape(case.fields, known | {name: (bound,) for name, bound in most.items()})
    present = [port for port in op.inputs if port.name in inputs]
    ports = [*present, *op.outputs]
    accepted = frozenset(tuple(choice[port.type] for port in ports) for choice in choices)
    return ContractCase(
        plugin=op.name,
        name=case.name,
        fields=dict(case.fields),
        inputs=tuple(TensorDesc(types[p.type], tuple(inputs[p.name].shape)) for p in present),
        outputs=tuple(TensorDesc(types[p.type], tuple(shapes[p.name])) for p in op.outputs),
        accepted=accepted,
    )


def _gpu_case(
    op: OpDef,
    case: Case,
    inputs: dict[str, np.ndarray],
    types: Mapping[str, str],
    expected: Mapping[str, np.ndarray],
) -> GpuCase:
    return GpuCase(
        plugin=op.name,
        name=f"{case.name}, {' '.join(types.values())}",
        fields=dict(case.fields),
        inputs=tuple(inputs.values()),
        expected=tuple(expected[port.name] for port in op.outputs),
        tolerance=tuple(op.tolerance.get(types[op.key], 0.0) for _ in op.outputs),
    )


def type_choices(op: OpDef) -> list[dict[str, str]]:
    """Returns every choice of dtypes for the operator's type variables, grouped by the key's dtype."""
    others = {port.type for port in (*op.inputs, *op.outputs)} - {op.key}
    variables = (op.key, *sorted(others))
    combinations = product(*(TYPE_VARIABLES[variable] for variable in variables))
    return [dict(zip(variables, combination, strict=True)) for combination in combinations]
