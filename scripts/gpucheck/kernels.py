"""Runs cases once in this process, for compute-sanitizer, with memory exactly as large as the tensors."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from gpucheck.raw import ExactMemory
from gpucheck.references import reader
from trtsmith.converter.engine.libraries import plugin_library
from trtsmith.converter.plugin.cases import Reference, compute_reference, in_all_dtypes
from trtsmith.converter.plugin.checks.checks import CheckFailedError
from trtsmith.converter.plugin.checks.checks_gpu import compare
from trtsmith.converter.plugin.contract import GpuCase
from trtsmith.converter.plugin.host.host import Host
from trtsmith.converter.plugin.host.host_library import PluginError
from trtsmith.importers.opdef import Arrays, Case, OpDef
from trtsmith.importers.registry import OPS

FAULTS = ("overflow", "unwritten")
"""Planted faults: outputs 16 bytes too small; inputs that nobody wrote."""

RAN = "kernels ran"


def run_kernels(which: str, operators: Sequence[str] | None = None, references: Path | None = None) -> int:
    """Runs cases. which: "small"; "large", the benchmarks' sizes and other large ones; "wide", those with other tiles;
    "engines", the small ones inside engines; or one of FAULTS, to run one case with that fault. Results are compared for the
    small ones; other steps do it for the others. operators: these only. references: a folder with stored results
    (references.py); missing ones are computed.

    Returns how many results were wrong, 0 for FAULTS: compute-sanitizer gives its own exit code only to a program that
    ends well.
    """
    if which == "engines":
        return _run_engines(operators or [op.name for op in OPS])
    host = Host()
    memory = ExactMemory(
        host.native, missing=16 if which == "overflow" else 0, skip_copies=which == "unwritten"
    )
    ran = wrong = 0
    reference = compute_reference if references is None else reader(references)
    with host.open(plugin_library()) as library:
        for op in (op for op in OPS if operators is None or op.name in operators):
            for case in _cases(op, which, reference):
                if which in FAULTS and (ran or case.expected[0].size < 100):
                    continue
                try:
                    with library.creator(op.name).create(dict(case.fields)) as plugin:
                        found = memory.run(plugin, case.inputs)
                    if which == "small":
                        compare(found, case)
                except CheckFailedError as failure:
                    wrong += 1
                    print(f"{op.name} {case.name}: {failure.what}", flush=True)
                except PluginError as error:
                    wrong += 1
                    print(f"{op.name} {case.name}: {error.problems[0].what}", flush=True)
                ran += 1
    print(f"{ran} {RAN}, {wrong} wrong", flush=True)
    return 0 if which in FAULTS else wrong


def _run_engines(operators: Sequence[str]) -> int:
    """The small cases inside engines."""
    from gpucheck.plugin_engines import run_watched

    with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
        passed, failures = run_watched(operators, Path(folder))
    for failure in failures:
        print(failure)
    print(f"{passed + len(failures)} {RAN}, {len(failures)} wrong")
    return len(failures)


def chosen(op: OpDef, which: str) -> list[Case]:
    """The operator's cases of one kind, as named in `run_kernels`."""
    if which not in ("large", "wide"):
        return [case for case in op.cases if not case.large]
    large = {case.name: case for case in (*(case for case in op.cases if case.large), *op.benchmarks)}
    return [case for case in large.values() if which == "large" or case.tiles]


def _cases(op: OpDef, which: str, reference: Reference) -> Iterator[GpuCase]:
    if which in ("large", "wide"):
        reference = _shapes_only
    return in_all_dtypes(op, chosen(op, which), reference)


def _shapes_only(op: OpDef, case: Case, dtype: str, inputs: Arrays) -> Mapping[str, np.ndarray]:
    if op.data_dependent:  # the sizes are in the results
        return compute_reference(op, case, dtype, inputs)
    shapes = op.shape(case.fields, {name: tuple(value.shape) for name, value in inputs.items()})
    return {name: np.zeros(tuple(shape)) for name, shape in shapes.items()}
