"""Measures the evidence for tolerances: errors against float64, ours and a framework's in the same dtype; and determinism.

Frameworks: PyTorch's formulation of the operator (OpDef.torch_reference) on the GPU, without TF32 and without reduced
precision in the sums of half-precision products; for deformable convolution also torchvision's own kernel.

Operators without a tolerance are left out: their outputs are exact. The plugins and sanitizer steps compare them with
their references, at no tolerance, and tests/gpu/test_kernels.py compares two runs of them bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gpucheck.metrics import allowed_error, allowed_tolerance, relative_error
from gpucheck.record import Notes
from gpucheck.references import reader
from trtsmith.converter.base.torch_arrays import to_torch
from trtsmith.converter.engine.libraries import plugin_library
from trtsmith.converter.plugin.cases import SEED, cast_inputs, type_choices
from trtsmith.converter.plugin.host.enqueue import run_plugin
from trtsmith.converter.plugin.host.host import Host, PluginLibrary
from trtsmith.converter.plugin.host.host_library import PluginError
from trtsmith.importers.dtypes import numpy_dtype
from trtsmith.importers.opdef import Arrays, Case, OpDef
from trtsmith.importers.registry import by_name

AT_ONCE = 8
"""Cases that are measured side by side; each process has PyTorch on the GPU."""

CROSS_CHECK = 1e-9
"""Allowed between the two float64 references, in numpy and in PyTorch."""


@dataclass
class Findings:
    """The findings of one case: a row for each dtype, and failures."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


def check(folder: Path, notes: Notes, ops: Sequence[OpDef]) -> None:
    """Runs every case, AT_ONCE to a process, large ones first."""
    tolerant = [op for op in ops if op.tolerance]
    jobs = sorted(
        ((op.name, case.name) for op in tolerant for case in op.cases),
        key=lambda job: not next(case for case in by_name()[job[0]].cases if case.name == job[1]).large,
    )
    found: dict[str, list[dict[str, Any]]] = {op.name: [] for op in tolerant}
    with ProcessPoolExecutor(AT_ONCE, get_context("spawn")) as pool:
        futures = [pool.submit(_measure_case, folder, *job) for job in jobs]
        for (name, _), future in zip(jobs, futures, strict=True):
            findings = future.result()
            found[name] += findings.rows
            for row in findings.rows:
                notes.row(**row)
            for failure in findings.failures:
                notes.failure(failure)
    for op in tolerant:
        _check_tolerances(op, _worst_by_dtype(found[op.name]), notes)
    rows = [row for mine in found.values() for row in mine]
    unequal = sum(row["bitwise_equal"] is False for row in rows)
    notes.summary(f"{len(rows)} kernels against the framework; {unequal} not bitwise equal in a second run")


def _measure_case(references: Path, op_name: str, case_name: str) -> Findings:
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    op = by_name()[op_name]
    case = next(case for case in op.cases if case.name == case_name)
    findings = Findings()
    read = reader(references)
    with Host().open(plugin_library()) as library:
        generated = case.inputs(np.random.default_rng(SEED))
        # The dtype of indices does not change values: the last choice for each dtype of the key is enough.
        for dtype, types in {types[op.key]: types for types in type_choices(op)}.items():
            inputs = cast_inputs(op, generated, types)
            expected = read(op, case, dtype, inputs)
            wanted = [expected[port.name] for port in op.outputs]
            _one(library, op, case, dtype, inputs, wanted, findings)
    torch.cuda.empty_cache()
    return findings


def _worst_by_dtype(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    worst: dict[str, dict[str, float]] = {}
    for row in rows:
        for column in ("ours", "framework", "torchvision"):
            if row.get(column) is not None:
                most = worst.setdefault(row["dtype"], {})
                most[column] = max(most.get(column, 0.0), row[column])
    return worst


def _one(
    library: PluginLibrary,
    op: OpDef,
    case: Case,
    dtype: str,
    inputs: Arrays,
    wanted: list[np.ndarray],
    findings: Findings,
) -> None:
    where = f"{op.name} {case.name} {dtype}"
    row: dict[str, Any] = {"op": op.name, "case": case.name, "dtype": dtype, "bitwise_equal": None}
    row["elements"] = sum(array.size for array in wanted)
    row["rounding"] = _worst([_rounded(array, dtype) for array in wanted], wanted)
    tensors = {name: to_torch(array).cuda() for name, array in inputs.items()}
    reference = op.torch_reference
    assert reference is not None, "an operator with a tolerance has one"
    frameworks = {"framework": reference}
    frameworks |= {name: compute for name, compute in op.baselines.items() if name == "torchvision"}
    for column, compute in frameworks.items():
        try:
            row[column] = _finite(_worst([to_numpy(a) for a in compute(case.fields, tensors)], wanted))
        except Exception as error:  # whatever keeps a framework from computing this is its own affair
            row[column], row[f"{column}_error"] = (
                None,
                f"{type(error).__name__}: {error}".splitlines()[0][:120],
            )
    exact = {
        name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()
    }
    try:
        row["torch_float64"] = _worst([to_numpy(a) for a in reference(case.fields, exact)], wanted)
        if not row["torch_float64"] <= CROSS_CHECK:
            findings.failures.append(f"{where}: the float64 references differ by {row['torch_float64']:.3g}")
    except Exception as error:
        findings.failures.append(f"{where}: PyTorch in float64: {type(error).__name__}: {error}")
    del tensors, exact
    try:
        with library.creator(op.name).create(dict(case.fields)) as plugin:
            first = run_plugin(plugin, list(inputs.values()))
            second = run_plugin(plugin, list(inputs.values()))
    except PluginError as error:
        findings.failures.append(f"{where}: {error.problems[0].what}")
        findings.rows.append(row)
        return
    row["ours"] = _worst(first, wanted)
    row["allowed"] = allowed_error(row["framework"], row["rounding"], row["elements"], dtype)
    if not row["ours"] <= row["allowed"]:
        findings.failures.append(
            f"{where}: error {row['ours']:.3g}, allowed {row['allowed']:.3g} (twice the framework's)"
        )
    if not row["ours"] <= op.tolerance[dtype]:
        findings.failures.append(
            f"{where}: error {row['ours']:.3g}, over the tolerance {op.tolerance[dtype]:.3g}"
        )
    row["bitwise_equal"] = all(a.tobytes() == b.tobytes() for a, b in zip(first, second, strict=True))
    if not row["bitwise_equal"]:
        row["difference"] = _worst(second, first)
        findings.failures.append(f"{where}: a second run differs by {row['difference']:.3g}")
    findings.rows.append(row)


def _check_tolerances(op: OpDef, worst: Mapping[str, Mapping[str, float]], notes: Notes) -> None:
    """Compares each tolerance with a framework's largest error in that dtype over all cases."""
    for dtype, tolerance in op.tolerance.items():
        found = worst.get(dtype, {})
        framework = max(found.get("framework", 0.0), found.get("torchvision", 0.0))
        allowed = allowed_tolerance(framework)
        notes.row(op=op.name, case="*", dtype=dtype, tolerance=tolerance, allowed=allowed, **found)
        if not tolerance <= allowed:
            notes.failure(
                f"{op.name} {dtype}: tolerance {tolerance:.3g}, over twice a framework's {framework:.3g}"
            )


def to_numpy(tensor: Any) -> np.ndarray:
    result: np.ndarray = tensor.double().cpu().numpy()
    return result


def _rounded(array: np.ndarray, dtype: str) -> np.ndarray:
    with np.errstate(over="ignore"):
        return array.astype(numpy_dtype(dtype))


def _worst(found: list[np.ndarray], wanted: list[np.ndarray]) -> float:
    return max((relative_error(a, b) for a, b in zip(found, wanted, strict=True)), default=0.0)


def _finite(error: float) -> float:
    if not np.isfinite(error):
        raise ArithmeticError("not finite where the reference is, or of another shape")
    return error
