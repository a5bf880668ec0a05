"""Compares the times of plugins and native operators: a model with our plugins, and with their expansions.

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
         plugin and native (converter/bench/node_worker.py says what is in them), ratio. Else null.
nodes_unavailable  why there are no nodes, or null
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from onnx import helper

from trtsmith.converter.base.errors import TrtsmithError
from trtsmith.converter.base.process.scratch_folder import ScratchFolder
from trtsmith.converter.base.progress import Progress
from trtsmith.converter.bench.against import ExpectedOutputs
from trtsmith.converter.bench.node_worker import ratio_of
from trtsmith.converter.bench.subject import BuildSource, Subject
from trtsmith.converter.bench.timed_engine import Timed
from trtsmith.converter.bench.timing import digits6
from trtsmith.converter.engine.builder.flavour import choose_flavour
from trtsmith.converter.engine.builder.gpu import find_gpu
from trtsmith.converter.engine.child.process import ChildDied, run_child
from trtsmith.converter.engine.runtime.exchange import write_arrays
from trtsmith.converter.graph.infer import infer_shapes, value_dtypes
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.rewrite import expand
from trtsmith.converter.rewrite.types import IoType, to_engine
from trtsmith.converter.verify.verdict import NOT_COMPARABLE
from trtsmith.importers.fields import fields_of_node
from trtsmith.importers.opdef import PLUGIN_NAMESPACE, Arrays, Case, OpDef
from trtsmith.importers.registry import by_name


@dataclass(frozen=True)
class NodeCase:
    """A plugin node with inputs.

    case:      its fields, and what its inputs were, by port name.
    generated: the same arrays. dtype: of the first input.
    """

    node: str
    op: OpDef
    case: Case
    generated: Arrays
    dtype: str


def node_cases(rewritten: Model, feeds: Arrays, io_types: tuple[IoType, ...] = ()) -> list[NodeCase]:
    """Makes a case of every plugin node of the main graph, with its inputs when the model runs on the feeds.

    rewritten: the graph that TensorRT gets. feeds: in the model's types. Nodes of subgraphs are left out: they have no
    inputs of their own outside of them. Raises ConversionError where onnxruntime cannot run the graph.
    """
    model = infer_shapes(rewritten)
    nodes = [
        node
        for node in model.proto.graph.node
        if node.domain == PLUGIN_NAMESPACE and node.op_type in by_name()
    ]
    wanted = list(dict.fromkeys(value for node in nodes for value in node.input if value))
    values = _captured(model, wanted, feeds, io_types) if nodes else {}
    found = []
    for node in nodes:
        op = by_name()[node.op_type]
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        fields = fields_of_node(op, attributes)
        ports = zip(op.inputs, node.input, strict=False)
        arrays = {port.name: values[value] for port, value in ports if value}
        dtype = str(arrays[op.inputs[0].name].dtype)
        name = node.name or f"node_of_{node.output[0]}"
        case = Case(name, fields, lambda _, arrays=arrays: dict(arrays))  # type: ignore[misc]  # bound above
        found.append(NodeCase(name, op, case, arrays, dtype))
    return found


def _captured(
    model: Model, values: list[str], feeds: Arrays, io_types: tuple[IoType, ...]
) -> dict[str, np.ndarray]:
    """What these values are when the model is run. Each leaves it through an Identity: some are inputs or constants."""
    kinds = value_dtypes(model.proto)
    proto = model.copied()
    del proto.graph.output[:]
    for number, value in enumerate(values):
        proto.graph.node.append(helper.make_node("Identity", [value], [f"captured {number}"]))
        elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(kinds[value]))
        proto.graph.output.append(helper.make_tensor_value_info(f"captured {number}", elem_type, None))
    names = {value.name for value in proto.graph.input}
    given = to_engine({name: array for name, array in feeds.items() if name in names}, io_types)
    found = run(expand(model.with_proto(proto)), given)
    return {value: found[f"captured {number}"] for number, value in enumerate(values)}


NODE_SECONDS = 120.0
"""For one node; TensorRT-RTX compiles the kernels of its expansion in that time."""


def side(subject: Subject, timed: Timed, judge: ExpectedOutputs) -> dict[str, Any]:
    """Describes one engine: its times and whether it agrees with onnxruntime, or why it did not run."""
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
    """Makes the document of both engines. without: why node times are missing."""
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
    """Times each plugin node's kernel and its expansion, in a process each. Returns (rows, None), or (None, why not)."""
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
