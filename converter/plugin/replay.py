"""Replays one plugin node with saved inputs through the plugin host, to tell a wrong kernel from a wrong engine around it.

The folder is what `trtsmith locate` saves: node.onnx with one plugin node, inputs.npz, expected.npz. TensorRT is not
needed; a GPU is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from onnx import helper

from trtsmith.converter.base.arrays import load_arrays
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.graph.constant_nodes import constant_value
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.plugin.checks.checks_gpu import DIRECT
from trtsmith.converter.plugin.contract import GpuCase
from trtsmith.converter.plugin.host.host_worker import LibraryWorker, WorkerDiedError, creator_index
from trtsmith.converter.rewrite.native_operators import native_operators
from trtsmith.converter.verify.tolerances import TOLERANCE
from trtsmith.importers.counted import counted
from trtsmith.importers.dtypes import numpy_dtype
from trtsmith.importers.fields import fields_of_node
from trtsmith.importers.opdef import PLUGIN_ATTRIBUTES, PLUGIN_NAMESPACE, TYPE_VARIABLES
from trtsmith.importers.registry import by_name


@dataclass(frozen=True)
class Replay:
    """A replay's result. right: whether the kernel's outputs are as expected. text: its error, or how it failed."""

    plugin: str
    gpu: str
    right: bool
    text: str

    @property
    def verdict(self) -> str:
        """Blames the kernel or the engine, if an engine computes something else from these inputs."""
        if self.right:
            return "the kernel is right: if the engine differs, it gave the kernel other inputs, so the conversion is wrong"
        return "the kernel is wrong"

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "verdict": self.verdict}


def read_case(folder: Path) -> GpuCase:
    """Reads the node with its inputs and right outputs. Raises UsageError if the folder has other files."""
    model = load_model(folder / "node.onnx")
    inputs = load_arrays(folder / "inputs.npz", "replay")
    expected = load_arrays(folder / "expected.npz", "replay")
    return case_of(model, inputs, expected, str(folder))


def case_of(
    model: Model, inputs: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray], where: str
) -> GpuCase:
    """Makes the kernel case of a model with one plugin node. UsageError if it has none, several, or lacks a tensor."""
    nodes = [node for node in model.proto.graph.node if node.op_type not in native_operators()]
    if len(nodes) != 1:
        what = f"the model has {counted(len(nodes), 'plugin node')}"
        fix = "cut the model down to the node, or let `trtsmith locate` do it"
        raise UsageError(what, where, "one plugin node, with Casts around it at most", fix)
    (node,) = nodes
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    definition = by_name().get(node.op_type) if node.domain == PLUGIN_NAMESPACE else None
    try:
        arrays = tuple(_value(name, model, inputs) for name in node.input if name)
        wanted = tuple(_expected(name, model, expected) for name in node.output if name)
        fields = (
            fields_of_node(definition, attributes)
            if definition is not None
            else {k: _plain(v) for k, v in attributes.items() if k not in PLUGIN_ATTRIBUTES}
        )
    except LookupError as error:
        what = f"a tensor or field of the node is missing: {error.args[0] if error.args else error}"
        raise UsageError(
            what, where, "every input, output and field of the node", "save the node again"
        ) from error
    # Judged as an engine is, since that is what it is to explain: the definitions' tolerances hold for their own cases.
    dtype = next((str(a.dtype) for a in arrays if str(a.dtype) in TYPE_VARIABLES["T"]), "float32")
    return GpuCase(node.op_type, "saved", fields, arrays, wanted, (TOLERANCE[dtype],) * len(wanted))


def _value(name: str, model: Model, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
    """An input of the plugin node: a tensor of the file, a constant, or either through a Cast. KeyError if neither."""
    if name in inputs:
        return inputs[name]
    for tensor in model.proto.graph.initializer:
        if tensor.name == name:
            return np.ascontiguousarray(model.array(tensor))
    for node in model.proto.graph.node:
        if name in node.output:
            constant = constant_value(node, model)
            if constant is not None:
                return constant
            if node.op_type == "Cast":
                return _value(node.input[0], model, inputs).astype(
                    numpy_dtype(next(a.i for a in node.attribute if a.name == "to"))
                )
    raise KeyError(name)


def _expected(name: str, model: Model, expected: Mapping[str, np.ndarray]) -> np.ndarray:
    """The right output, in float64: of the file, under its own name or that of the Cast behind it."""
    if name in expected:
        return expected[name].astype(np.float64)
    for node in model.proto.graph.node:
        if node.op_type == "Cast" and node.input[0] == name and node.output[0] in expected:
            return expected[node.output[0]].astype(np.float64)
    raise KeyError(name)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return tuple(value) if isinstance(value, list) else value


def replay(
    case: GpuCase, library: Path, *, host: Path | None = None, timeout_s: float = 120.0
) -> Replay | None:
    """Runs the kernel in a child process; None without a GPU.

    UsageError if the library cannot be loaded, or has no such plugin.
    """
    with LibraryWorker(library, host, timeout_s) as worker:
        described = worker.start()
        index = creator_index(described, case.plugin, library, "give another with --library")
        if described["gpu"] is None:
            return None
        try:
            answer = worker.ask(index, DIRECT, case)
        except WorkerDiedError as death:
            return Replay(case.plugin, described["gpu"], False, f"the kernel {death}")
    right = answer["verdict"] == "pass"
    text = answer["note"] if right else f"{answer['what']}; expected: {answer['expected']}"
    return Replay(case.plugin, described["gpu"], right, text)
