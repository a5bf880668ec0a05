"""Tests users' own operators: defines the functions that a package's tests call for each operator and case.

    from trtsmith import testing
    from voxels import OPERATORS

    @testing.each_case(OPERATORS)
    def test_the_expansion_is_right(op, case):
        testing.check_expansion(op, case)

Every function raises AssertionError with what was found and what is right. `each_case` needs pytest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trtsmith.converter.plugin.cases import (
    SEED,
    cast_inputs,
    compute_reference,
    contract_cases,
    in_all_dtypes,
    type_choices,
)
from trtsmith.converter.verify.expansion_run import run_expanded
from trtsmith.importers.dims import Unknown
from trtsmith.importers.fields import check_fields
from trtsmith.importers.opdef import Case, OpDef

__all__ = [
    "check_definition",
    "check_example",
    "check_expansion",
    "check_library",
    "check_migrated_kernels",
    "check_migration",
    "check_torch",
    "each_case",
    "has_gpu",
    "relative_error",
]


def each_case(operators: Sequence[OpDef]) -> Any:
    """Parametrizes a pytest test's arguments `op` and `case` by the cases that a CPU can do."""
    import pytest

    pairs = [
        pytest.param(op, case, id=f"{op.name}-{case.name}")
        for op in operators
        for case in op.cases
        if not case.large
    ]
    return pytest.mark.parametrize(("op", "case"), pairs)


def relative_error(output: np.ndarray, reference: np.ndarray) -> float:
    """Returns ||output - reference|| / ||reference|| in float64; infinite where shapes differ or one alone is not finite."""
    if output.shape != reference.shape:
        return float("inf")
    found, right = output.astype(np.float64), reference.astype(np.float64)
    if not np.array_equal(np.isfinite(found), np.isfinite(right)):
        return float("inf")
    finite = np.isfinite(right)
    distance = float(np.linalg.norm(found[finite] - right[finite]))
    return distance / max(float(np.linalg.norm(right[finite])), 1e-30)


def check_definition(op: OpDef, case: Case) -> None:
    """Checks that fields are allowed, that the shape rule fits the reference, also for unknown sizes, and that `check`
    passes.
    """
    refusal = check_fields(op, case.fields)
    assert refusal is None, f"{op.name}, case {case.name}: {refusal}"
    inputs = _inputs(op, case, _first(op))
    reference = op.reference(case.fields, inputs)
    shapes: dict[str, Any] = {name: array.shape for name, array in inputs.items()}
    assert op.check(case.fields, shapes) == []
    assert op.check(case.fields, {name: (None,) * len(shape) for name, shape in shapes.items()}) == []
    shapes |= {port.name: (int(reference[port.name]),) for port in op.sizes}
    right = {port.name: reference[port.name].shape for port in op.outputs}
    found = {name: tuple(shape) for name, shape in op.shape(case.fields, shapes).items()}
    assert found == right, f"the shape rule of {op.name} says {found}, its reference gives {right}"
    unknown = op.shape(case.fields, {name: tuple(Unknown() for _ in shape) for name, shape in shapes.items()})
    ranks = {name: len(shape) for name, shape in unknown.items()}
    assert ranks == {name: len(shape) for name, shape in right.items()}


def check_expansion(op: OpDef, case: Case, opset: int = 17) -> None:
    """Checks that the expansion, run by onnxruntime in every dtype of the operator, agrees with the reference."""
    for types in type_choices(op):
        inputs = _inputs(op, case, types)
        outputs = run_expanded(op, case.fields, inputs, max(opset, op.expansion_opset))
        reference = op.reference(case.fields, inputs)
        _compare(op, f"the expansion in {types[op.key]}", types[op.key], outputs, reference)


def check_torch(op: OpDef, case: Case) -> None:
    """Checks that the PyTorch form, in float64, agrees with the reference. Needs torch."""
    import torch

    assert op.torch_reference is not None, f"{op.name} has no torch_reference"
    types = _first(op) | ({op.key: "float64"} if op.key == "T" and op.tolerance else {})
    inputs = _inputs(op, case, types)
    outputs = op.torch_reference(case.fields, {name: torch.from_numpy(a) for name, a in inputs.items()})
    found = {port.name: output.numpy() for port, output in zip(op.outputs, outputs, strict=True)}
    reference = op.reference(case.fields, inputs)
    for port in op.outputs:
        error = relative_error(found[port.name], reference[port.name])
        assert error < 1e-12, f"PyTorch's {port.name} of {op.name} differs from the reference by {error:.2g}"


def check_library(library: str | Path, operators: Sequence[OpDef], *, gpu: bool | None = None) -> None:
    """Checks that the plugins keep TensorRT's contract in every case; with a GPU, that their kernels agree with the
    reference.

    gpu: None runs kernels where there is a GPU, True needs one, False runs none. As `trtsmith plugin test`, but what is
    advice there is demanded here: trtsmith's own adapters keep to it.
    """
    from trtsmith.converter.plugin.test import test_library

    known = {op.name: op for op in operators}
    if not Path(library).is_file():
        raise AssertionError(
            f"{library} does not exist: run trtsmith op build in the folder of plugins.cmake"
        )

    def kernels(name: str) -> Any:
        return in_all_dtypes(known[name], known[name].cases, compute_reference) if name in known else ()

    report = test_library(library, gpu=gpu, definitions=contract_cases(operators), gpu_cases=kernels)
    tested = {result.creator for result in report.results}
    assert set(known) <= tested, f"the library lacks {', '.join(sorted(set(known) - tested))}"
    problems = [str(result.problem) for result in report.results if result.problem is not None]
    assert not problems, "\n".join(problems)
    assert report.ok


def check_example(model: str | Path | OpDef, package: str | Path) -> None:
    """Checks that every node of the model reaches TensorRT, and that onnxruntime runs it with the operators expanded.

    The outputs are finite, and of the shapes that the model declares. The model has shapes of known sizes.
    model: a file, or an operator: then the one that `trtsmith op example` writes of its first case, in today's names.
    package: the folder of the operators, as --ops takes it. Those of installed packages are left out.
    """
    from trtsmith.converter.base.options.shapes import graph_inputs
    from trtsmith.converter.convert.analysis import AnalysisOptions, analyse
    from trtsmith.converter.model.load import load_model
    from trtsmith.converter.model.model_bytes import ModelBytes
    from trtsmith.converter.model.ort import run
    from trtsmith.converter.operators.loading import operators_in_force
    from trtsmith.converter.rewrite.rewrite import reference
    from trtsmith.converter.scaffold.case_example import case_example
    from trtsmith.converter.verify.inputs import generate_inputs

    stale = ""
    if isinstance(model, OpDef):
        loaded = load_model(ModelBytes(case_example(model, model.cases[0])))
    else:
        loaded = load_model(Path(model))
        stale = (
            f"if the definition has changed since, `trtsmith op example {package}` writes the example again"
        )
    with operators_in_force([str(package)], installed=False):
        analysis = analyse(loaded, AnalysisOptions())
        assert analysis.convertible, "\n".join((*map(str, analysis.problems), stale))
        outputs = run(reference(loaded), generate_inputs(loaded, graph_inputs(loaded.proto), {}).arrays)
    for value in loaded.proto.graph.output:
        declared = tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
        shape = outputs[value.name].shape
        assert shape == declared, f"{value.name} is {list(shape)}, the model says {list(declared)}; {stale}"
        assert np.isfinite(outputs[value.name].astype(np.float64)).all(), f"{value.name} is not finite"


def has_gpu() -> bool:
    """Tells whether there is a GPU to run kernels on."""
    from trtsmith.converter.plugin.host.host import Host

    return Host().device_count() > 0


def check_migration(
    old: str | Path,
    new: str | Path,
    operators: Sequence[OpDef],
    plugins: Mapping[str, str],
    wider: Mapping[str, Sequence[tuple[str, ...]]],
) -> None:
    """Checks that the new plugins answer like the old ones: fields, types, shapes and linear formats; so do their copies.

    plugins: the old plugin of each operator. wider: types of inputs and outputs that only the new plugin takes.
    """
    from trtsmith.converter.plugin.migration_check import differences

    found = [
        line
        for op in operators
        for line in differences(_found(old), _found(new), op, plugins[op.name], wider)
    ]
    assert not found, "\n".join(found)


def check_migrated_kernels(
    old: str | Path,
    new: str | Path,
    operators: Sequence[OpDef],
    plugins: Mapping[str, str],
    wider: Mapping[str, Sequence[tuple[str, ...]]],
) -> None:
    """Checks, with a GPU, that the new kernels compute the old results, in every case and type that both take."""
    from trtsmith.converter.plugin.migration_check import kernel_cases
    from trtsmith.converter.plugin.test import test_library

    known = {op.name: op for op in operators}
    with kernel_cases(_found(old), plugins, wider) as cases_of:
        report = test_library(
            _found(new),
            gpu=True,
            definitions=contract_cases(operators),
            gpu_cases=lambda name: cases_of(known[name]) if name in known else (),
        )
    problems = [str(result.problem) for result in report.results if result.problem is not None]
    assert not problems, "\n".join(problems)


def _found(library: str | Path) -> Path:
    if not Path(library).is_file():
        raise AssertionError(f"{library} does not exist: run trtsmith op build, or name the old library")
    return Path(library)


def _first(op: OpDef) -> dict[str, str]:
    return type_choices(op)[0]


def _inputs(op: OpDef, case: Case, types: Mapping[str, str]) -> dict[str, np.ndarray]:
    """The case's inputs in these dtypes, the same at every call."""
    return cast_inputs(op, case.inputs(np.random.default_rng(SEED)), types)


def _compare(
    op: OpDef,
    what: str,
    dtype: str,
    outputs: Mapping[str, np.ndarray],
    reference: Mapping[str, np.ndarray],
) -> None:
    """Within the operator's tolerance; equal where it has none."""
    for port in op.outputs:
        found, right = outputs[port.name], reference[port.name]
        if not op.tolerance:
            np.testing.assert_array_equal(found, right, err_msg=f"{what}: {port.name} of {op.name}")
            continue
        error, allowed = relative_error(found, right), op.tolerance[dtype]
        assert error <= allowed, (
            f"{what}: {port.name} of {op.name} differs by {error:.2g}, allowed is {allowed:.2g}"
        )
