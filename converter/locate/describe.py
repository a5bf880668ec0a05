"""Describes nodes, values and the growth of errors in the words of the report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import helper

from trtsmith.converter.engine.reduction.node_table import NodeTable, op_name
from trtsmith.converter.locate.executors.executor import Arrays
from trtsmith.converter.locate.found import Growth, NodeReport, TensorReport
from trtsmith.converter.locate.search import NodeFault, Seen
from trtsmith.converter.rewrite.engine.records import Rewrite
from trtsmith.converter.verify.compare import Comparison

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
    """A node with its tensors. given: their values; fault: where it is one, for the errors that are its own."""
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
    """The node of the original model that a node of the rewritten graph stands for; "" where it is that node itself."""
    for record in rewrites:
        if name and name in (record.plugin_node, *record.made):
            return f"node {record.node!r} ({record.op_type}), by {record.pass_name}"
    return ""


def growths(table: NodeTable, seen: Iterable[Seen]) -> tuple[Growth, ...]:
    """The nodes in which relative errors grow the most, the worst first."""
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
    """A README's lines: each array with type, shape and range."""
    lines = []
    for name, array in values.items():
        r = tensor_report(name, array)
        shape = "x".join(map(str, r.shape)) or "scalar"
        low_high = "no finite number" if r.low is None else f"{r.low:g} to {r.high:g}"
        lines.append(f"  {name}: {r.dtype} {shape}, {low_high}")
    return "\n".join(lines)
