"""Finds tensors that a node may update in place though others read them: the hint where nodes are wrong together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from onnx import helper

from trtsmith.converter.locate.executors.executor import Arrays, Onnxruntime
from trtsmith.converter.locate.fault_graph import SIZES_ONLY, GraphView, with_outputs
from trtsmith.converter.locate.probe import Value


@dataclass(frozen=True, eq=False)
class SharedInput:
    """A tensor that a node reads, of the type and sizes of one of its outputs, and that something else reads as well.

    times: how many of the node's inputs it is. readers: indices of other nodes that read it for its numbers.
    equal: other constants of the same numbers, which a compiler may keep once, with the nodes that read them.
    fill: the one number that all its elements are; None: they differ, or depend on the graph's inputs.
    """

    name: str
    times: int
    readers: tuple[int, ...]
    equal: Mapping[str, tuple[int, ...]]
    fill: float | None


def shared_inputs(
    view: GraphView, index: int, values: Mapping[str, Value], feeds: Arrays
) -> tuple[SharedInput, ...]:
    """Those of one node. values: types and sizes of what the graph computes. feeds: the graph's inputs."""
    kinds = {_kind(view, name, values) for name in view.nodes[index].output} - {None}
    inputs = list(view.nodes[index].input)
    found = []
    for name in dict.fromkeys(filter(None, inputs)):
        if _kind(view, name, values) not in kinds:
            continue
        constants = _constants_like(view, name, values, feeds)
        array = constants.pop(name, None)
        equal = (
            {} if array is None else {n: _readers(view, n) for n, a in constants.items() if _same(a, array)}
        )
        times, readers = inputs.count(name), tuple(i for i in _readers(view, name) if i != index)
        if times > 1 or readers or any(equal.values()):
            fill = None if array is None or np.unique(array).size != 1 else float(array.reshape(-1)[0])
            found.append(SharedInput(name, times, readers, equal, fill))
    return tuple(found)


def _readers(view: GraphView, name: str) -> tuple[int, ...]:
    return tuple(i for i in view.readers.get(name, ()) if view.nodes[i].op_type not in SIZES_ONLY)


def _constants_like(
    view: GraphView, name: str, values: Mapping[str, Value], feeds: Arrays
) -> dict[str, np.ndarray]:
    """Constants of that one's type and sizes, itself among them; none if it is no constant."""
    stored = {**view.initializers, **view.constants}
    if name not in stored and (name in view.varying or name in view.inputs):
        return {}
    kind = _kind(view, name, values)
    found = {n: view.model.array(tensor) for n, tensor in stored.items() if _kind(view, n, values) == kind}
    made = [n for n in view.made if n not in view.varying and _kind(view, n, values) == kind]
    if made:
        asked = with_outputs(view.model, (values[n].info() for n in made), only=True)
        found |= Onnxruntime().execute(asked, feeds)
    return found


def _kind(view: GraphView, name: str, values: Mapping[str, Value]) -> tuple[str, tuple[int, ...]] | None:
    """Type and sizes; None where they are not known."""
    tensor = view.initializers.get(name) or view.constants.get(name)
    if tensor is not None:
        return str(helper.tensor_dtype_to_np_dtype(tensor.data_type)), tuple(tensor.dims)
    return (values[name].dtype, values[name].shape) if name in values else None


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    return bool(np.array_equal(one, other))
