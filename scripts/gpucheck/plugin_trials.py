"""Makes graphs of an operator's cases, with its plugin between TensorRT's own layers, and compares outputs.

    input -> Mul by one, Add of zero or Or with false, given when the engine runs -> plugin -> the same -> output

These layers keep TensorRT from handing the plugin the engine's own inputs and outputs, and change no number: an output is
right where it is as near to the operator's float64 reference as its kernel has to be.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
import onnx
from onnx import helper

from onnxcoverage.builder import Sizes
from trtsmith.converter.plugin.cases import in_dtypes
from trtsmith.converter.plugin.checks.checks import CheckFailedError
from trtsmith.converter.plugin.checks.checks_gpu import compare
from trtsmith.converter.plugin.contract import GpuCase
from trtsmith.importers.dtypes import numpy_dtype
from trtsmith.importers.fields import plugin_attributes
from trtsmith.importers.opdef import PLUGIN_NAMESPACE, Case, OpDef

OPSET = 17

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Trial:
    """A case of an operator in one choice of types. feeds: the engine's inputs, including those of the outer layers."""

    op: OpDef
    types: Mapping[str, str]
    definition: Case
    case: GpuCase
    present: tuple[str, ...]
    feeds: Arrays

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def types_said(self) -> str:
        return " ".join(self.types.values())


def trials_of(op: OpDef, types: Mapping[str, str]) -> Iterator[Trial]:
    """Every case except large ones, which networks cover."""
    for case in op.cases:
        if not case.large:
            made = in_dtypes(op, case, types)
            # For the names: an optional port may be left out.
            generated = case.inputs(np.random.default_rng(0))
            present = tuple(port.name for port in op.inputs if port.name in generated)
            given = dict(zip(present, made.inputs, strict=True))
            yield Trial(op, types, case, made, present, feeds_of(op, types, given))


def feeds_of(op: OpDef, types: Mapping[str, str], given: Arrays) -> Arrays:
    """The operator's inputs, and those of the layers around it."""
    neutral = {_neutral_name(array.dtype): _neutral(array.dtype) for array in given.values() if array.ndim}
    out = {
        _zero_name(numpy_dtype(types[port.type])): _zero(numpy_dtype(types[port.type])) for port in op.outputs
    }
    return given | neutral | out


def model_of(trials: Sequence[Trial], *, dynamic: bool) -> onnx.ModelProto:
    """The graph for cases that differ only in sizes."""
    op, types, present = trials[0].op, trials[0].types, trials[0].present
    nodes, inputs, names = [], [], []
    for port in op.inputs:
        if port.name not in present:
            names.append("")
            continue
        array = trials[0].feeds[port.name]
        shape = [f"{port.name}_{axis}" for axis in range(array.ndim)] if dynamic else array.shape
        inputs.append(helper.make_tensor_value_info(port.name, _tensor_type(array.dtype), shape))
        names.append(f"{port.name}_in" if array.ndim else port.name)
        if array.ndim:
            kind = {"f": "Mul", "V": "Mul", "b": "Or"}.get(array.dtype.kind, "Add")
            nodes.append(helper.make_node(kind, [port.name, _neutral_name(array.dtype)], [names[-1]]))
    while not names[-1]:
        names.pop()
    made = [port.name if port.size else f"{port.name}_out" for port in op.outputs]
    attributes = plugin_attributes(op, trials[0].case.fields)
    nodes.append(helper.make_node(op.name, names, made, name="plugin", domain=PLUGIN_NAMESPACE, **attributes))
    outputs = []
    for port in op.outputs:
        if port.size:
            continue
        dtype = numpy_dtype(types[port.type])
        kind = "Or" if dtype.kind == "b" else "Add"
        nodes.append(helper.make_node(kind, [f"{port.name}_out", _zero_name(dtype)], [port.name]))
        outputs.append(helper.make_tensor_value_info(port.name, _tensor_type(dtype), None))
    inputs += [
        helper.make_tensor_value_info(name, _tensor_type(array.dtype), array.shape)
        for name, array in trials[0].feeds.items()
        if name not in present
    ]
    graph = helper.make_graph(nodes, "graph", inputs, outputs)
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(PLUGIN_NAMESPACE, 1)]
    return helper.make_model(graph, ir_version=9, opset_imports=opsets)


def groups(trials: Sequence[Trial]) -> list[tuple[Trial, ...]]:
    """Groups of cases for one dynamic engine each, as they differ only in sizes."""

    def key(trial: Trial) -> str:
        ranks = [trial.feeds[name].ndim for name in trial.present]
        return repr((sorted(trial.case.fields.items()), trial.present, ranks))

    return [tuple(group) for _, group in groupby(sorted(trials, key=key), key)]


def sizes_of_all(shapes: Sequence[tuple[int, ...]]) -> Sizes:
    """A profile that covers all these shapes, with the middle one as the usual one."""
    usual = sorted(shapes, key=lambda shape: int(np.prod(shape)))[len(shapes) // 2]
    least = tuple(map(min, zip(*shapes, strict=True)))
    most = tuple(map(max, zip(*shapes, strict=True)))
    return Sizes((least, usual, most))


def _tensor_type(dtype: np.dtype) -> int:
    return int(helper.np_dtype_to_tensor_dtype(dtype))


def _neutral_name(dtype: np.dtype) -> str:
    """The name of the neutral operand in the layer before the plugin."""
    return f"one_{dtype.name}" if dtype.kind in "fV" else _zero_name(dtype)


def _neutral(dtype: np.dtype) -> np.ndarray:
    return np.ones(1, dtype) if dtype.kind in "fV" else _zero(dtype)


def _zero_name(dtype: np.dtype) -> str:
    return f"zero_{dtype.name}"


def _zero(dtype: np.dtype) -> np.ndarray:
    return np.zeros(1, dtype)


class TrialComparison:
    """Compares outputs with references, and sums up."""

    def __init__(self, op: OpDef, types: Mapping[str, str]) -> None:
        self._op = op
        self._types = " ".join(types.values())

    def report(self, *routes: tuple[str, Iterator[tuple[Trial, Any]]]) -> dict[str, Any]:
        rows, failures = [], []
        for route, runs in routes:
            kinds: defaultdict[str, list[str]] = defaultdict(list)
            for trial, outputs in runs:
                fault = self.fault(trial, outputs)
                kinds[trial.case.kind].append(fault)
                if fault:
                    failures.append(f"{self._op.name}, {self._types}, {route}, {trial.name}: {fault}")
            head = {"op": self._op.name, "types": self._types, "route": route}
            for kind, faults in kinds.items():
                rows.append({**head, "kind": kind, "cases": len(faults), "passed": faults.count("")})
        return {"rows": rows, "failures": failures}

    def fault(self, trial: Trial, outputs: Arrays | str) -> str:
        """The fault in the outputs; "" if there is none."""
        if isinstance(outputs, str):
            return outputs
        case = trial.case
        made = zip(self._op.outputs, case.expected, case.tolerance, strict=True)
        kept = [(port.name, wanted, allowed) for port, wanted, allowed in made if not port.size]
        names, expected, tolerance = zip(*kept, strict=True)
        try:
            compare([outputs[name] for name in names], replace(case, expected=expected, tolerance=tolerance))
        except CheckFailedError as failure:
            return f"{failure.what}; expected {failure.expected}"
        return ""
