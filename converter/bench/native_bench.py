"""Times plugin against native: a model with our operators as plugins, and as their expansions.

What a rule recognises as one of our operators in ONNX's own nodes is, without plugins, as the other rules write it.

reason   why no engine with the plugins could be timed, or null
plugin   the engine with plugins, or its `unavailable`:
  compute_ms, response_ms     as in `runs`, without CUDA graph where there is such a run
  engine_bytes, device_memory bytes
  error                       the largest relative error (ratio of norms) of an output against onnxruntime; null if
                              onnxruntime does not run the model, or an output cannot be compared
  agrees                      whether every output is within its tolerance; null if none can be compared
native   the same of the engine without plugins
ratio    native's median compute_ms over the plugin engine's, or null
nodes    where the engine with plugins could not be timed: for each plugin node its kernel, run by the plugin host on
         the inputs that it has in the model, beside an engine of its expansion alone. node, op, dtype, shapes,
         plugin and native (converter/bench/node.py says what is in them), ratio. Else null.
nodes_unavailable  why there are no nodes, or null
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trtsmith.converter.bench.figures import digits6
from trtsmith.converter.bench.judging import ExpectedOutputs
from trtsmith.converter.bench.node import ratio_of
from trtsmith.converter.bench.nodes import NodeCase, node_cases
from trtsmith.converter.bench.subject import BuildSource, Subject
from trtsmith.converter.bench.timed_engine import Timed
from trtsmith.converter.engine.build.flavour import choose_flavour
from trtsmith.converter.engine.build.gpu import find_gpu
from trtsmith.converter.engine.child.process import ChildDied, Progress, run_child
from trtsmith.converter.engine.runtime.exchange import write_arrays
from trtsmith.converter.model.errors import TrtsmithError
from trtsmith.converter.model.process.scratch_folder import ScratchFolder
from trtsmith.converter.verify.verdict import NOT_COMPARABLE

Arrays = Mapping[str, np.ndarray]

NODE_SECONDS = 120.0
"""For one node; TensorRT-RTX compiles the kernels of its expansion in that time."""


def side(subject: Subject, timed: Timed, judge: ExpectedOutputs) -> dict[str, Any]:
    """The times of one engine, and whether its outputs agree with onnxruntime's; the reason if it did not run."""
    run = timed.plain_run()
    if run is None:
        return {"unavailable": timed.runs[0]["unavailable"]}
    verdict = judge.verdict(timed.outputs)
    known = (c.relative if c.compared or c.agrees else math.inf for c in verdict.comparisons)
    worst = max(known, default=math.inf)
    return {
        "compute_ms": run["compute_ms"],
        "response_ms": run["response_ms"],
        "engine_bytes": subject.run.engine_path.stat().st_size,
        "device_memory": subject.info.device_memory,
        "error": digits6(worst) if math.isfinite(worst) else None,
        "agrees": None if verdict.status == NOT_COMPARABLE else verdict.agrees,
        "reason": verdict.reason,
    }


def account(
    plugin: dict[str, Any],
    native: dict[str, Any],
    nodes: Sequence[Mapping[str, Any]] | None,
    without: str | None,
) -> dict[str, Any]:
    """The document of both sides. without: why there are no nodes although there should be."""
    medians = [s["compute_ms"]["median"] if "compute_ms" in s else None for s in (plugin, native)]
    ours, theirs = medians
    return {
        "reason": plugin.get("unavailable"),
        "plugin": plugin,
        "native": native,
        "ratio": digits6(theirs / ours) if ours and theirs else None,
        "nodes": nodes,
        "nodes_unavailable": without,
    }


def time_nodes(
    source: BuildSource, feeds: Arrays, count: int, flavour: str, progress: Progress
) -> tuple[list[dict[str, Any]] | None, str | None]:
    """(rows, None), or (None, why not): each plugin node's kernel beside its expansion, each in a process of its own."""
    try:
        cases = node_cases(source.rewritten.model, feeds, source.rewritten.io_types)
    except TrtsmithError as error:
        return None, error.problems[0].what
    chosen = choose_flavour(flavour, find_gpu())
    rows = []
    for case in cases:
        progress(f"timing {case.node} ({case.op.name}) alone")
        rows.append(_row(case, _measured(case, count, chosen, progress)))
    return rows, None


def _measured(case: NodeCase, count: int, flavour: str, progress: Progress) -> dict[str, Any]:
    if case.op.data_dependent:
        return _untimed("an operator whose number of results depends on values is not timed alone")
    with ScratchFolder("node") as name:
        arrays = Path(name) / "inputs"
        write_arrays(arrays, case.generated)
        request = {
            "op": case.op.name,
            "fields": dict(case.case.fields),
            "inputs": str(arrays),
            "dtype": case.dtype,
            "count": count,
            "flavour": flavour,
        }
        try:
            return run_child(
                "trtsmith.converter.bench.node_worker",
                json.dumps(request),
                flavour,
                timeout_s=NODE_SECONDS,
                on_progress=progress,
            )
        except TrtsmithError as error:
            return _untimed(error.problems[0].what)
        except ChildDied as death:
            return _untimed(f"its process {death}")


def _untimed(reason: str) -> dict[str, Any]:
    return {side: {"unavailable": reason} for side in ("plugin", "native")}


def _row(case: NodeCase, found: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "node": case.node,
        "op": case.op.name,
        "dtype": case.dtype,
        "shapes": {name: list(array.shape) for name, array in case.generated.items()},
        **found,
        "ratio": ratio_of(found["plugin"], found["native"]),
    }
