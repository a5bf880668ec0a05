"""Recognises outputs of selections, and the scores that decide them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import onnx

from trtsmith.converter.graph.constant_nodes import constant_value
from trtsmith.converter.graph.infer import infer_shapes
from trtsmith.converter.graph.walk import values_read
from trtsmith.converter.model.model import Model
from trtsmith.converter.verify.tolerances import Tolerances
from trtsmith.importers.registry import OPS, find_aliases, normalise_domain

_SELECTS: Mapping[str, str] = {op.onnx: op.selects for op in OPS if op.onnx and op.selects} | {
    "ArgMax": "classes",
    "ArgMin": "classes",
}
"""By operator of ONNX, what its outputs are."""

_CARRIERS = frozenset({"Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
"""Operators that only change an output's shape or type. Of these a Transpose alone moves elements: positions as rows."""

_EFFICIENT = "EfficientNMS_TRT"

_COMPARES = frozenset({"Greater", "GreaterOrEqual", "Less", "LessOrEqual"})


@dataclass(frozen=True)
class Selection:
    """A selection behind an output. Values have the model's names, or "" if missing.

    kind:    one of tolerances.KINDS.
    scores:  the value by which it is decided: along `axis` for classes and rankings. against: of a set, the value that
        `scores` are compared with. order: of rows, the scores of those that were chosen, in their order.
    boxes:   of boxes that overlap, the candidates. centres: whether these are centres and sizes. boxes_first: whether scores
        are [images, boxes, classes], and not [images, classes, boxes].
    overlap: the intersection over union from which a better box suppresses another; None if unknown.
    most:    of boxes, how many of a class are chosen at most; 0 if unknown.
    limits:  numbers with which something is compared on the way to the output: a threshold of scores is one of them; of a
        set the one with which `scores` are.
    indices: whether the output itself has the rows of (image, class, box) that NonMaxSuppression writes.
    """

    kind: str
    scores: str = ""
    axis: int = -1
    against: str = ""
    order: str = ""
    boxes: str = ""
    centres: bool = False
    boxes_first: bool = False
    overlap: float | None = None
    most: int = 0
    limits: tuple[float, ...] = ()
    indices: bool = False

    def watched(self) -> Iterator[str]:
        return (name for name in (self.scores, self.against, self.order, self.boxes) if name)


def find_selections(model: Model, tolerances: Tolerances | None = None) -> dict[str, Selection]:
    """Finds the selection behind each output. The user's word (`--compare`) decides; "values" means no selection.

    An output that is no direct result is one of rows if a selection is among the nodes that it is computed by. Nodes in
    functions and subgraphs are not looked at.
    """
    graph = _Producers(model)
    said = {} if tolerances is None else tolerances.kinds
    found = {}
    for name in (value.name for value in model.proto.graph.output):
        selection = graph.selection(name)
        if name in said:
            selection = replace(selection or Selection(""), kind=said[name])
        if selection is not None and selection.kind != "values":
            found[name] = selection
    return found


def watched(model: Model) -> Model:
    """Adds the values by which selections decide to the model's outputs."""
    have = {value.name for value in model.proto.graph.output}
    names = [name for one in find_selections(model).values() for name in one.watched() if name not in have]
    if not names:
        return model
    proto = model.copied()
    typed = infer_shapes(model).proto.graph
    types = {value.name: value for value in (*typed.value_info, *typed.input)}
    proto.graph.output.extend(types[name] for name in dict.fromkeys(names) if name in types)
    return model.with_proto(proto)


class _Producers:
    def __init__(self, model: Model) -> None:
        self._model = model
        self._nodes = {name: node for node in model.proto.graph.node for name in node.output}
        self._tensors = {tensor.name: tensor for tensor in model.proto.graph.initializer}

    def selection(self, output: str) -> Selection | None:
        name = self._carried(output)
        node = self._nodes.get(name)
        if node is not None and (kind := _selects(node)):
            position = list(node.output).index(name)
            if kind == "ranking" and position == 0 and len(node.output) > 1:
                rows = self._rows(output)  # sorted scores: of detections, or values in their order
                return rows if rows is not None and not rows.order else None
            if kind in ("classes", "ranking", "set"):
                return self._direct(node, kind, position)
        return self._rows(output)

    def _carried(self, name: str) -> str:
        """The value that this one is, but for its shape or type."""
        while (node := self._nodes.get(name)) is not None and _standard(node) in _CARRIERS:
            name = node.input[0]
        return name

    def _direct(self, node: onnx.NodeProto, kind: str, position: int) -> Selection | None:
        """The selection that the node itself makes; None for outputs that are compared as values."""
        if kind == "classes" or (kind == "ranking" and position == len(node.output) - 1):
            return Selection(kind, node.input[0], _attribute(node, "axis", 0 if kind == "classes" else -1))
        if kind == "ranking" or position:
            return None
        source = self._nodes.get(node.input[0])
        while source is not None and _standard(source) in ("Cast", "Identity"):
            source = self._nodes.get(source.input[0])
        if source is not None and _standard(source) in _COMPARES:
            value, limit = source.input
            if self._number(value) is not None:
                value, limit = limit, value
            number = self._number(limit)
            return (
                Selection(kind, value, against=limit)
                if number is None
                else Selection(kind, value, limits=(number,))
            )
        return Selection(kind, node.input[0])

    def _rows(self, output: str) -> Selection | None:
        """The nearest selection behind an output, one of boxes before others, and numbers that values are compared with."""
        nearest: Selection | None = None
        boxes = False
        limits: dict[float, None] = {}
        seen, left = {output}, deque([output])
        while left:
            node = self._nodes.get(left.popleft())
            if node is None:
                continue
            if _standard(node) in _COMPARES:
                limits |= dict.fromkeys(n for one in node.input if (n := self._number(one)) is not None)
            kind = _selects(node)
            if kind not in ("", "classes") and (nearest is None or (kind == "detections" and not boxes)):
                nearest, boxes = self._behind(node, kind), kind == "detections"
            for name in dict.fromkeys(values_read(node)):
                if name not in seen:
                    seen.add(name)
                    left.append(name)
        if nearest is None:
            return None
        source = self._nodes.get(self._carried(output))
        indices = source is not None and _standard(source) == "NonMaxSuppression"
        return replace(nearest, limits=(*nearest.limits, *limits), indices=indices)

    def _behind(self, node: onnx.NodeProto, kind: str) -> Selection:
        if kind == "ranking" and len(node.output) > 1:
            return Selection(
                "rows",
                node.input[0],
                _attribute(node, "axis", -1),
                order=node.output[0] if node.output[0] else "",
            )
        if node.op_type == _EFFICIENT and not _attribute(node, "score_activation", 0):
            numbers = {a.name: float(a.f) for a in node.attribute}
            return Selection(
                "rows",
                node.input[1],
                boxes=node.input[0],
                centres=bool(_attribute(node, "box_coding", 0)),
                boxes_first=True,
                overlap=numbers.get("iou_threshold"),
                limits=(numbers.get("score_threshold", 0.0),),
            )
        if kind != "detections" or _standard(node) not in _SELECTS:
            return Selection("rows")
        most, overlap, limit = [*map(self._number, node.input[2:5]), None, None, None][:3]
        return Selection(
            "rows",
            node.input[1],
            boxes=node.input[0],
            centres=bool(_attribute(node, "center_point_box", 0)),
            overlap=overlap,
            most=int(most or 0),
            limits=() if limit is None else (limit,),
        )

    def _number(self, name: str) -> float | None:
        """The constant, if it is one number."""
        name = self._carried(name)
        tensor, node = self._tensors.get(name), self._nodes.get(name)
        if tensor is not None and int(np.prod(tensor.dims)) == 1:
            value: np.ndarray | None = self._model.array(tensor)
        else:
            value = None if node is None else constant_value(node, self._model)
        if value is None or value.size != 1 or value.dtype.kind not in "fiu":
            return None
        return float(value.reshape(-1)[0])


def _standard(node: onnx.NodeProto) -> str:
    return "" if normalise_domain(node.domain) else node.op_type


def _selects(node: onnx.NodeProto) -> str:
    """What the node's outputs are by its definition; "" where it selects nothing."""
    if (name := _standard(node)) in _SELECTS:
        return _SELECTS[name]
    return next((op.selects for op, _ in find_aliases(node.domain, node.op_type)), "")


def _attribute(node: onnx.NodeProto, name: str, default: int) -> int:
    return next((int(a.i) for a in node.attribute if a.name == name), default)
