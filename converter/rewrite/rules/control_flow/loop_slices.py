"""Rewrites fixed-length slices and ranges that begin at a Loop's counter as Gathers, which TensorRT loops support.

Slice cuts what lies outside of an axis, and Gather has no such thing: a Slice is written so only where it is known to stay
inside in every run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper

from trtsmith.converter.graph.tensor_types import Dim
from trtsmith.converter.graph.walk import values_read
from trtsmith.converter.rewrite.engine.node_rule import NodeView, constant_node
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.rules.control_flow.loop_ranges import LoopRanges
from trtsmith.converter.rewrite.rules.control_flow.loop_values import LoopValues, RunValue
from trtsmith.converter.rewrite.rules.control_flow.trip_counts import Count

_MOVED = ("Identity", "Cast", "Squeeze", "Unsqueeze", "Reshape")


@dataclass(frozen=True)
class _MovingAxis:
    """An axis of a Slice whose begin changes from run to run: `length` elements from `start` on."""

    axis: int
    start: str
    length: int


class SliceWriter:
    """Rewrites slices in a Loop's body. bounds: upper bounds of a run's index."""

    def __init__(self, node: NodeView, values: LoopValues, bounds: tuple[int | Count, ...]) -> None:
        self._node = node
        self._values = values
        self._ranges = LoopRanges(values, bounds)

    def body(self) -> tuple[onnx.GraphProto | None, str]:
        """Returns the body with Gathers, or None if nothing changes; and why a Slice or Range had to stay, or ""."""
        body = onnx.GraphProto()
        body.CopyFrom(self._values.body)
        del body.node[:]
        refused, changed = "", False
        for inner in self._values.body.node:
            written: list[onnx.NodeProto] | str | None = None
            if inner.op_type in ("Slice", "Range") and inner.domain in ("", "ai.onnx"):
                written = self._slice(inner) if inner.op_type == "Slice" else self._range(inner)
            if isinstance(written, str):
                refused = refused or written
            changed = changed or isinstance(written, list)
            body.node.extend(written if isinstance(written, list) else [inner])
        return (body if changed else None), refused

    # Slice

    def _slice(self, inner: onnx.NodeProto) -> list[onnx.NodeProto] | str | None:
        values = self._values
        if len(inner.input) < 4 or all(values.stays(name) for name in inner.input[1:] if name):
            return None
        axes = values.constant(inner.input[3])
        steps = values.constant(inner.input[4]) if len(inner.input) > 4 and inner.input[4] else np.array([1])
        rank = values.dims(inner.input[0])
        if axes is None or steps is None or rank is None:
            return None
        starts, ends = self._split(inner.input[1], axes.size), self._split(inner.input[2], axes.size)
        if starts is None or ends is None:
            return None
        parts, fixed = [], []
        for index, axis in enumerate(axes.reshape(-1).tolist()):
            axis = axis + len(rank) if axis < 0 else axis
            start, end = starts[index], ends[index]
            if isinstance(start, int) and isinstance(end, int):
                fixed.append((axis, start, end, int(np.broadcast_to(steps.reshape(-1), axes.size)[index])))
                continue
            if np.any(steps != 1) or isinstance(start, int):
                return None
            squeezed = self._squeezed(inner.output[0], axis, len(rank))
            length = self._length(start, end, rank[axis], inner.input[0], axis, squeezed)
            if not isinstance(length, int):
                return length and f"the Slice {inner.output[0]!r} in its body {length}"
            parts.append(_MovingAxis(axis, start, length))
        return self._gathers(inner, parts, fixed) if parts else None

    def _split(self, name: str, count: int) -> list[int | str] | None:
        """The elements of starts or ends: integers, or names of single-element values."""
        whole = self._values.constant(name)
        if whole is not None:
            return [int(v) for v in whole.reshape(-1)] if whole.size == count else None
        found: list[int | str] = []
        for part in self._values.elements(name) or ():
            constant = self._values.constant(part)
            found += [part] if constant is None else [int(v) for v in constant.reshape(-1)]
        return found if len(found) == count else None

    def _squeezed(self, name: str, axis: int, rank: int) -> bool:
        """Whether every reader squeezes the axis, which must then have one element."""
        readers = [inner for inner in self._values.body.node if name in values_read(inner)]
        if not readers or name in {value.name for value in self._values.body.output}:
            return False
        return all(axis in _axes_taken(self._values, reader, rank) for reader in readers)

    def _length(
        self, start: str, end: int | str, size: Dim, data: str, axis: int, squeezed: bool
    ) -> int | str:
        """The number of elements along the axis; a reason in words if it is unknown, "" if the start is no counter."""
        values = self._values
        first = values.of(start)
        if first is None or isinstance(end, int):
            return ""
        last, caps = self._capped(end)
        length = _difference(last, first)
        if length is None or not first.step:
            return ""
        if length < 1:
            return f"has {length} elements"
        ranges = self._ranges
        if not ranges.begins_inside(first):
            return f"may begin before axis {axis} of {data!r}"
        if squeezed and length == 1:
            return length
        limits = [ranges.axis(data, axis, size), *map(ranges.value, caps)]
        if not all(ranges.ends_inside(first, length, limit) for limit in limits):
            return f"may end beyond axis {axis} of {data!r}"
        return length

    def _capped(self, name: str) -> tuple[RunValue | None, list[RunValue | None]]:
        """A number, and the caps that Min puts on it, as in Min(start + 1, size)."""
        values = self._values
        found = values.of(name)
        maker = values.makers.get(name)
        while found is None and maker is not None and maker.op_type in _MOVED:
            maker = values.makers.get(maker.input[0])
        if found is not None or maker is None or maker.op_type != "Min":
            return found, []
        parts = [values.of(part) for part in maker.input]
        moving = [part for part in parts if part is not None and part.step]
        caps = [part for part in parts if part is None or not part.step]
        return (moving[0] if len(moving) == 1 else None), caps

    def _gathers(
        self, inner: onnx.NodeProto, parts: list[_MovingAxis], fixed: list[tuple[int, int, int, int]]
    ) -> list[onnx.NodeProto]:
        nodes: list[onnx.NodeProto] = []
        data = inner.input[0]
        if fixed:
            columns = zip(*((start, end, axis, step) for axis, start, end, step in fixed), strict=True)
            operands = [self._constant(nodes, np.array(column, np.int64)) for column in columns]
            data = self._add(nodes, "Slice", [data, *operands], inner.output[0] if not parts else "")
        for part in parts:
            indices = self._indices(nodes, part.start, part.length, np.dtype(np.int64))
            result = inner.output[0] if part is parts[-1] else ""
            data = self._add(nodes, "Gather", [data, indices], result, axis=part.axis)
        return nodes

    # Range

    def _range(self, inner: onnx.NodeProto) -> list[onnx.NodeProto] | str | None:
        values = self._values
        if all(map(values.stays, inner.input)):
            return None
        first, step = values.of(inner.input[0]), values.constant(inner.input[2])
        last, caps = self._capped(inner.input[1])
        length = _difference(last, first)
        if first is None or length is None or step is None or step.size != 1 or not step.reshape(-1)[0]:
            return None
        elem = values.elem_type(inner.output[0]) or values.elem_type(inner.input[0])
        by = step.reshape(-1)[0]
        if not elem or step.dtype.kind not in "iu":
            return None
        if not all(self._ranges.ends_inside(first, length, self._ranges.value(cap)) for cap in caps):
            return f"the Range {inner.output[0]!r} in its body may have another length each time"
        count = max(0, -(-length // int(by)))
        nodes: list[onnx.NodeProto] = []
        self._indices(nodes, inner.input[0], count, step.dtype, inner.output[0], int(by))
        return nodes

    # nodes

    def _indices(
        self,
        nodes: list[onnx.NodeProto],
        start: str,
        count: int,
        dtype: np.dtype[np.generic],
        result: str = "",
        by: int = 1,
    ) -> str:
        """The vector start, start + by, ... of `count` elements."""
        one = self._constant(nodes, np.array([1], np.int64))
        plain = dtype == np.int64 and self._values.elem_type(start) == onnx.TensorProto.INT64
        last = count == 1
        if not plain and result == "":
            start = self._add(nodes, "Cast", [start], "", to=onnx.TensorProto.INT64)
        vector = self._add(nodes, "Reshape", [start, one], result if last else "")
        if last:
            return vector
        steps = self._constant(nodes, Writer(self._node).numbers(count).astype(dtype) * dtype.type(by))
        return self._add(nodes, "Add", [vector, steps], result)

    def _constant(self, nodes: list[onnx.NodeProto], value: np.ndarray) -> str:
        name = self._node.fresh("c")
        nodes.append(constant_node(name, value))
        return name

    def _add(
        self, nodes: list[onnx.NodeProto], op_type: str, inputs: list[str], result: str, **attributes: Any
    ) -> str:
        result = result or self._node.fresh(op_type.lower())
        nodes.append(helper.make_node(op_type, inputs, [result], **attributes))
        return result


def _axes_taken(values: LoopValues, node: onnx.NodeProto, rank: int) -> set[int]:
    """The axes that a Squeeze removes; none for other nodes."""
    if node.op_type != "Squeeze" or node.domain not in ("", "ai.onnx"):
        return set()
    held = values.constant(node.input[1]) if len(node.input) > 1 else None
    axes = [axis for a in node.attribute if a.name == "axes" for axis in a.ints]
    return {int(axis) % rank for axis in (axes if held is None else held.reshape(-1).tolist())}


def _difference(last: RunValue | None, first: RunValue | None) -> int | None:
    """last - first if it is the same in every run, else None."""
    if last is None or first is None or (last.base, last.step) != (first.base, first.step):
        return None
    return last.offset - first.offset
