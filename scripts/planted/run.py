"""Plants one error, searches for it, and judges the answer."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from planted.changes import Change, is_called
from planted.plants import Plant
from trtsmith.converter.base.arrays import load_arrays
from trtsmith.converter.base.errors import TrtsmithError
from trtsmith.converter.locate.executors.executor import Executor
from trtsmith.converter.locate.found import AGREE, NODE, REWRITE, ROUNDING, Located
from trtsmith.converter.locate.locate_fault import SearchGround, locate
from trtsmith.converter.locate.searched_graph import ReplayKernel, SearchOptions
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.rewrite import Rewritten, rewrite
from trtsmith.converter.rewrite.rules import RULES
from trtsmith.importers.opdef import Arrays


class Planted:
    """An executor that runs a changed graph."""

    def __init__(self, inner: Executor, change: Change) -> None:
        self._inner = inner
        self._change = change
        self.name = inner.name
        self.types, self.tf32, self.fuses = inner.types, inner.tf32, inner.fuses
        self.float16_sums = inner.float16_sums

    def execute(self, model: Model, feeds: Arrays) -> dict[str, np.ndarray]:
        return self._inner.execute(self._change(model), feeds)


@dataclass(frozen=True)
class Ground:
    """The executor for a plant's graph. change: the change to plant; None if the executor itself is broken.

    replay: runs a plugin's kernel alone, the one of the plant.
    """

    executor: Executor
    change: Change | None
    replay: ReplayKernel | None = None


def search(plant: Plant | None, model: Path, inputs: Path, ground: Ground, folder: Path | None) -> Located:
    """The answer of `locate` for a model with the error planted in it; plant None: with nothing planted."""
    original = load_model(model)
    executor = ground.executor if ground.change is None else Planted(ground.executor, ground.change)
    arrays = load_arrays(inputs, "planted")
    searched = SearchGround(
        original, _rewritten(original, plant), arrays, executor, inputs.name, ground.replay
    )
    return locate(searched, SearchOptions(folder=folder), lambda text: None)


def _rewritten(original: Model, plant: Plant | None) -> Rewritten:
    rules = (plant.rule, *RULES) if plant is not None and plant.rule is not None else RULES
    rewritten = rewrite(original, rules=rules)
    if plant is None or plant.importer is None:
        return rewritten
    return replace(rewritten, model=plant.importer(rewritten.model))


def row_of(plant: Plant, model: Path, inputs: Path, ground: Ground, work: Path) -> dict[str, Any]:
    """Searches, then again in the saved minimal model; "found" only if both name the node."""
    started = time.perf_counter()
    row: dict[str, Any] = {
        "plant": plant.name,
        "model": plant.model,
        "node": plant.node,
        "on": ground.executor.name,
    }
    folder = work / "found"
    try:
        found = search(plant, model, inputs, ground, folder)
        faults = faults_of(plant, found)
        if not faults:
            again = search(plant, folder / "node.onnx", folder / "inputs.npz", ground, None)
            faults += [f"in the saved model: {fault}" for fault in faults_of(plant, again)]
        if plant.kernel and ground.replay is not None:
            faults += _kernel_faults(plant, found)
            row["kernel"] = found.kernel
        row |= {
            "status": found.status,
            "named": [node.name for node in found.nodes],
            "compared": len(found.values),
        }
        row["error"] = next((t.error for node in found.nodes for t in node.outputs if t.reason), None)
    except TrtsmithError as error:
        faults = [str(problem.what) for problem in error.problems]
    return row | {"found": not faults, "faults": faults, "seconds": round(time.perf_counter() - started, 2)}


def control_of(name: str, model: Path, inputs: Path, ground: Ground) -> dict[str, Any]:
    """Searches with nothing planted, which must name nothing."""
    row: dict[str, Any] = {"plant": None, "model": name, "on": ground.executor.name}
    try:
        found = search(None, model, inputs, ground, None)
    except TrtsmithError as error:
        return row | {"found": False, "faults": [problem.what for problem in error.problems]}
    # In TF32 outputs may be off by more than float32 is allowed without a node being wrong.
    right = found.status == AGREE or (found.status == ROUNDING and ground.executor.tf32)
    named = [node.name for node in found.nodes]
    faults = [] if right else [f"{found.status}: {', '.join(named)} was named, and nothing was planted"]
    return row | {"status": found.status, "compared": len(found.values), "found": right, "faults": faults}


def faults_of(plant: Plant, found: Located) -> list[str]:
    """The faults of a verdict."""
    ours = plant.rule is not None or plant.importer is not None
    wanted = REWRITE if ours else NODE
    if found.status != wanted:
        return [f"the verdict is {found.status}, not {wanted}"]
    first = found.nodes[0]
    if ours:
        right, named = f"node {plant.node!r} " in first.original, first.original
    else:
        right = is_called(first.name, plant.node, first.op_type.rpartition("::")[2])
        named = first.name
    return [] if right else [f"{named} was named, not {plant.node}"]


def _kernel_faults(plant: Plant, found: Located) -> list[str]:
    """Checks that a broken kernel is distinguished from a correct one with wrong fields."""
    wanted = "the kernel is wrong" if plant.broken else "the kernel is right"
    return [] if found.kernel.startswith(wanted) else [f"of the kernel alone it is said: {found.kernel}"]
