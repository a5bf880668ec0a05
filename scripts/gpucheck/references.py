"""Computes the reference results of all cases once, with a tolerance, and stores them for other steps.

All are the operators' own numpy references in float64. The largest takes about 4 s, so no other oracle is needed; the
accuracy step also compares them with PyTorch in float64 on the GPU.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from gpucheck.record import Notes
from trtsmith.converter.plugin.cases import SEED, Reference, cast_inputs, compute_reference, type_choices
from trtsmith.importers.opdef import Arrays, Case, OpDef
from trtsmith.importers.registry import by_name


def reader(folder: Path) -> Reference:
    """A reference that reads results from the folder and computes the rest."""

    def read(op: OpDef, case: Case, dtype: str, inputs: Arrays) -> Mapping[str, np.ndarray]:
        path = _path(folder, op.name, case.name, dtype)
        if not path.is_file():
            return compute_reference(op, case, dtype, inputs)
        with np.load(path) as stored:
            return dict(stored)

    return read


def check(folder: Path, notes: Notes, ops: Sequence[OpDef]) -> None:
    """Computes every reference, each dtype separately, in one process per core, large ones first."""
    jobs = sorted(
        (
            (op.name, case.name, dtype, case.large)
            for op in ops
            for case in op.cases
            for dtype in dict.fromkeys(types[op.key] for types in type_choices(op))
        ),
        key=lambda job: not job[3],
    )
    workers = os.cpu_count() or 1
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        futures = [pool.submit(_compute, folder, op, case, dtype) for op, case, dtype, _ in jobs]
        for (op_name, case_name, dtype, large), future in zip(jobs, futures, strict=True):
            seconds = future.result()
            if large:
                notes.row(op=op_name, case=case_name, dtype=dtype, oracle="numpy float64", seconds=seconds)
    notes.summary(f"numpy float64 for {len(jobs)} cases, dtypes counted")


def _compute(folder: Path, op_name: str, case_name: str, dtype: str) -> float:
    """Computes a reference, and returns the seconds it took."""
    op = by_name()[op_name]
    case = next(case for case in op.cases if case.name == case_name)
    generated = case.inputs(np.random.default_rng(SEED))
    # The dtype of indices does not change values: the last choice for each dtype of the key is enough.
    types = {types[op.key]: types for types in type_choices(op)}[dtype]
    began = time.monotonic()
    outputs: dict[str, Any] = dict(compute_reference(op, case, dtype, cast_inputs(op, generated, types)))
    if all(array.dtype.isbuiltin == 1 for array in outputs.values()):
        # A file of arrays does not keep bfloat16; such values are moved as they are, not computed.
        path = _path(folder, op.name, case.name, dtype)
        partial = path.with_suffix(".partial.npz")
        np.savez(partial, **outputs)
        os.replace(partial, path)
    return time.monotonic() - began


def _path(folder: Path, op: str, case: str, dtype: str) -> Path:
    return folder / f"{op}-{case}-{dtype}.npz"
