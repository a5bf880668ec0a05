"""Describes nodes, values and the growth of errors for the report, and gives advice."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import helper

from trtsmith.converter.engine.reduction.node_table import NodeTable
from trtsmith.converter.locate.found import Growth, NodeReport, TensorReport
from trtsmith.converter.locate.reduced_precision import ReducedNodes
from trtsmith.converter.locate.search import NodeFault, Seen
from trtsmith.converter.rewrite.engine.records import Rewrite
from trtsmith.converter.rewrite.precision.formats import FORMATS
from trtsmith.converter.verify.compare import Comparison
from trtsmith.importers.counted import counted
from trtsmith.importers.opdef import Arrays
from trtsmith.importers.registry import op_name

MOST_NAMED = 8
"""Nodes that a sentence lists at most."""

MOST_FLAGS = 32
"""Nodes whose flags are written out, to be copied; of more, the first and the last are named."""

ABOVE = 1.1
"""The proposed tolerance in units of the observed difference: with two digits it still is above that."""

GROWTHS = 5
"""Nodes of which it is told that errors grow in them."""

NO_ERROR = 1e-9
"""Relative errors below this are none: float64 has fewer digits to spare than a quotient of such numbers needs."""


def tensor_report(name: str, array: np.ndarray, comparison: Comparison | None = None) -> TensorReport:
    values = np.asarray(array)
    numbers = values.astype(np.float64).reshape(-1)
    finite = numbers[np.isfinite(numbers)]
    report = TensorReport(
        name,
        str(values.dtype),
        tuple(values.shape),
        float(finite.min()) if finite.size else None,
        float(finite.max()) if finite.size else None,
    )
    if comparison is None:
        return report
    return replace(report, error=comparison.relative, reason="" if comparison.agrees else comparison.reason)


def seen_report(seen: Seen) -> TensorReport:
    c = seen.comparison
    return TensorReport(c.output, c.dtype, c.shape, None, None, c.relative, "" if c.agrees else c.reason)


def node_report(
    table: NodeTable, index: int, given: Arrays, fault: NodeFault | None, seen: Iterable[Seen], origin: str
) -> NodeReport:
    """Describes a node and its tensors. given: their values. fault: for the node's own errors."""
    node = table.nodes[index]
    overall = {s.comparison.output: s.comparison for s in seen}
    own = {c.output: c for c in fault.local} if fault is not None else overall
    inputs = fault.region.inputs if fault is not None else table.reads[index]
    return NodeReport(
        name=table.label(index),
        op_type=op_name(node),
        original=origin,
        inputs=tuple(tensor_report(n, given[n], overall.get(n)) for n in inputs if n in given),
        outputs=tuple(tensor_report(n, given[n], own.get(n)) for n in node.output if n in given),
        attributes={a.name: _attribute(a) for a in node.attribute},
        behind=tuple(table.label(i) for i in fault.region.nodes[:-1]) if fault is not None else (),
    )


def _attribute(attribute: onnx.AttributeProto) -> Any:
    """Numbers and text as they are, anything else by its kind."""
    value = helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, (int, float, str)):
        return value
    if isinstance(value, list) and all(isinstance(item, (int, float)) for item in value):
        return value
    return f"({onnx.AttributeProto.AttributeType.Name(attribute.type).lower()})"


def origin_of(name: str, rewrites: Iterable[Rewrite]) -> str:
    """Returns the original node that a node of the rewritten graph replaces; "" if it is the same node."""
    for record in rewrites:
        if name and name in (record.plugin_node, *record.made):
            return f"node {record.node!r} ({record.op_type}), by {record.pass_name}"
    return ""


def growths(table: NodeTable, seen: Iterable[Seen]) -> tuple[Growth, ...]:
    """Finds the nodes in which relative errors grow most, worst first."""
    errors: dict[str, float] = {}
    makers: dict[int, float] = {}
    for item in seen:
        c = item.comparison
        error = c.relative if c.agrees or c.relative else float("inf")
        errors[c.output] = error
        makers[item.node] = max(makers.get(item.node, 0.0), error)
    found = []
    for index, after in makers.items():
        before = max((errors.get(name, 0.0) for name in table.reads[index]), default=0.0)
        if after > NO_ERROR:
            growth = Growth(table.label(index), op_name(table.nodes[index]), before, after)
            found.append((after / max(before, NO_ERROR), growth))
    found.sort(key=lambda pair: pair[0], reverse=True)
    return tuple(growth for _, growth in found[:GROWTHS])


def ranges(values: Mapping[str, np.ndarray]) -> str:
    """Writes lines for a README: type, shape and range of each array."""
    lines = []
    for name, array in values.items():
        r = tensor_report(name, array)
        shape = "x".join(map(str, r.shape)) or "scalar"
        low_high = "no finite number" if r.low is None else f"{r.low:g} to {r.high:g}"
        lines.append(f"  {name}: {r.dtype} {shape}, {low_high}")
    return "\n".join(lines)


def advice(
    precision: str, outputs: Sequence[Comparison], reduction: ReducedNodes | None, wide: Sequence[str] | None
) -> tuple[str, ...]:
    """Gives one sentence for each possible remedy.

    outputs: those that disagree. reduction: None where the model's types are its own. wide: nodes that make the outputs
    agree when they are in float32; () where not even all of them do, None where that is not known.
    """
    return (*_types(precision, reduction, wide), *_tolerances(outputs))


def together_advice(saved: int, shared: Sequence[str], single: bool) -> tuple[str, ...]:
    """Gives advice on nodes that are wrong only together.

    saved: nodes of the model that was saved because an engine of it is wrong; 0: none was. shared: initial values that are
    kept once, or may be. single: whether one node stands out, which a plugin could compute.
    """
    what = (
        f"the folder, whose model of {counted(saved, 'node')} shows it"
        if saved
        else "the model, its inputs and this report"
    )
    told = [f"report it to NVIDIA with {what}: the error is in TensorRT"]
    if shared:
        told.append(
            f"try another initial value: where {', '.join(shared[:MOST_NAMED])} depends on an input of the model (0 * X, "
            "added to it), it is no constant that TensorRT may keep once for several nodes"
        )
    if single:
        told.append(
            "compute such a node in a plugin of your own (`trtsmith op new` writes one): TensorRT computes it apart from "
            "others"
        )
    return tuple(told)


def _types(precision: str, reduction: ReducedNodes | None, wide: Sequence[str] | None) -> Iterator[str]:
    if precision not in FORMATS:
        return
    fmt = FORMATS[precision]
    if reduction is None:
        yield f"--precision fp32 computes in float32 what the model has in {fmt.name}"
        return
    if wide is not None:
        yield _kept(reduction, wide)
    other = next(one for one in FORMATS.values() if one is not fmt)
    times = 2 ** abs(fmt.digits - other.digits)
    how = "finer" if other.digits > fmt.digits else "coarser"
    where = "no value is" if other.largest < fmt.largest else "values are"
    narrow = min(fmt.largest, other.largest)
    yield f"--precision {other.flag} where {where} beyond {narrow:g}: it rounds {times} times {how}"


def _kept(reduction: ReducedNodes, wide: Sequence[str]) -> str:
    """What --keep-fp32 can do."""
    if not wide:
        return (
            "--keep-fp32 does not help: with all of these nodes in float32 the outputs disagree, too; "
            "the tolerance is narrower than float32 is here"
        )
    of = f"{len(wide)} of {counted(len(reduction.nodes), 'node')} kept in float32 the outputs agree"
    if len(wide) <= MOST_FLAGS:
        flags = " ".join(f"--keep-fp32 {shlex.quote(name)}" for name in wide)
        return f"add {flags} to the conversion: with {of}"
    kinds = dict(reduction.nodes)
    first, last = (f"{name!r} ({kinds[name]})" for name in (wide[0], wide[-1]))
    return f"--keep-fp32 NAME|OP: with {of}, those from {first} to {last}; --json has their names"


def _tolerances(outputs: Sequence[Comparison]) -> Iterator[str]:
    wider = [f"--atol {shlex.quote(f'{c.output}:{ABOVE * c.max:.1e}')}" for c in outputs if _measured(c)]
    if wider:
        yield f"{' '.join(wider)} would allow what was seen, if that is near enough for you"


def _measured(c: Comparison) -> bool:
    """Whether the output has a difference that --atol can allow: neither whole numbers nor what is not finite."""
    return c.max > 0 and "int" not in c.dtype and c.dtype != "bool"
