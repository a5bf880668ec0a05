"""Compares a plugin with the V2 plugin that it was migrated from: their answers, and their kernels' results."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from trtsmith.converter.plugin.calls import KernelCall, KernelsByPlugin
from trtsmith.converter.plugin.cases import contract_cases, in_dtypes, type_choices
from trtsmith.converter.plugin.contract import ContractCase, GpuCase
from trtsmith.converter.plugin.host.host_worker import LibraryWorker, WorkerDiedError, creator_index
from trtsmith.converter.plugin.observation import OBSERVE, OBSERVE_ALONE
from trtsmith.importers.opdef import PORT_TYPES, Arrays, Case, OpDef

_LIMIT_S = 120.0

Wider = Mapping[str, Sequence[tuple[str, ...]]]
"""Types of inputs and outputs that a new plugin takes and the old one does not, by the operator's name."""


def differences(old: Path, new: Path, op: OpDef, plugin: str, wider: Wider) -> Iterator[str]:
    """Lists the operator's plugin's answers that differ from the old one's, in every case of the operator."""
    cases = contract_cases([op])
    before = _observed(old, [replace(case, plugin=plugin) for case in cases])
    after = _observed(new, cases)
    for case, one, other in zip(cases, before, after, strict=True):
        for what in sorted((one.keys() | other.keys()) - {"workspace"}):
            wanted, got = one.get(what), other.get(what)
            if (
                what == "samples" and wanted and got
            ):  # one of the two may have been asked for the case's sizes alone
                wanted, got = wanted[: len(got)], got[: len(wanted)]
            if what == "linear formats" and wanted is not None:
                wanted = sorted([*wanted, *map(tuple, wider.get(op.name, ()))])
            if got != wanted:
                yield f"{op.name}, {case.name}: {what}: the new plugin has {got}, the old one {wanted}"
    if op.workspace and not any(any(one.get("workspace", ())) for one in after):
        yield f"{op.name} asks for no workspace: write `workspace` of its binding, or leave workspace=True out"


def observed(worker: LibraryWorker, index: int, case: ContractCase) -> dict[str, Any]:
    """Returns a plugin's answers; "alone" where other sizes than the case's end its process. Raises WorkerDiedError."""
    try:
        return worker.ask(index, OBSERVE, case)
    except WorkerDiedError as death:
        return worker.ask(index, OBSERVE_ALONE, case) | {"alone": f"with other sizes it {death}"}


def _observed(library: Path, cases: Sequence[ContractCase]) -> list[dict[str, Any]]:
    with LibraryWorker(library, None, _LIMIT_S) as worker:
        described = worker.start()
        found = []
        for case in cases:
            index = creator_index(described, case.plugin, library, "name the library that has it")
            try:
                answer = observed(worker, index, case)
            except WorkerDiedError as death:
                answer = {"problem": f"the plugin {death}"}
            seen = {"fields": [field["name"] for field in described["creators"][index]["fields"]]}
            if "problem" in answer:
                found.append(seen | {"problem": answer["problem"]})
                continue
            pairs = [one for one in answer["combinations"] if all(layout == "linear" for _, layout in one)]
            taken = (tuple(dtype for dtype, _ in one) for one in pairs)
            linear = sorted(types for types in taken if PORT_TYPES.issuperset(types))
            shapes = {key: answer[key] for key in ("types", "samples", "workspace")}
            found.append(seen | shapes | {"linear formats": linear})
        return found


@contextmanager
def kernel_cases(
    old: Path, plugins: Mapping[str, str], wider: Wider
) -> Iterator[Callable[[OpDef], Iterator[GpuCase]]]:
    """Makes the operator's cases, with the old kernel's results as the right outputs, where it takes the types."""
    with (
        tempfile.TemporaryDirectory() as scratch,
        KernelsByPlugin(dict.fromkeys(plugins.values(), old), _LIMIT_S) as kernels,
    ):

        def reference(op: OpDef, case: Case, dtype: str, inputs: Arrays) -> dict[str, np.ndarray]:
            folder = Path(tempfile.mkdtemp(dir=scratch))
            outputs = kernels.call(plugins[op.name], KernelCall(case.fields, (*inputs.values(),), folder))
            names = [port.name for port in op.outputs]
            return {name: one.astype(np.float64) for name, one in zip(names, outputs, strict=True)}

        def cases(op: OpDef) -> Iterator[GpuCase]:
            left_out = {tuple(one) for one in wider.get(op.name, ())}
            for case in op.cases:
                for types in type_choices(op):
                    if tuple(types[port.type] for port in (*op.inputs, *op.outputs)) not in left_out:
                        yield in_dtypes(op, case, types, reference)

        yield cases
