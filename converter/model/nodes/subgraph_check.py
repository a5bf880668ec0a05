"""Checks that the subgraphs of control flow match their nodes' inputs and outputs, which schemas do not cover."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import onnx

from trtsmith.importers.problem import Problem

_FIX = "correct the node where the model is exported"

Counts = tuple[int, int]
"""How many values a body takes and gives."""


def check_subgraphs(node: onnx.NodeProto, opset: int, where: str) -> Iterator[Problem]:
    """Problems of a node whose attributes are those of its schema; none of a node without bodies."""
    counts = _COUNTS.get(node.op_type)
    if counts is None:
        return
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield from _check_body(attribute, where, counts(node, opset))


def _check_body(attribute: onnx.AttributeProto, where: str, wanted: Counts) -> Iterator[Problem]:
    body = attribute.g
    given = len(body.input), len(body.output)
    for what, count, right in zip(("inputs", "outputs"), given, wanted, strict=True):
        if count != right:
            said = f"The graph {attribute.name!r} of the node has {count} {what}."
            yield Problem(said, where, f"{right}, as the node's inputs and outputs have it", _FIX)


def _if(node: onnx.NodeProto, opset: int) -> Counts:
    return 0, len(node.output)


def _loop(node: onnx.NodeProto, opset: int) -> Counts:
    """Trip count and condition come first: the body takes the counter in the place of the one, and gives only the other."""
    return max(2, len(node.input)), len(node.output) + 1


def _scan(node: onnx.NodeProto, opset: int) -> Counts:
    """Opset 8 had lengths of sequences before all other inputs."""
    return len(node.input) - (opset == 8), len(node.output)


def _map(node: onnx.NodeProto, opset: int) -> Counts:
    return len(node.input), len(node.output)


_COUNTS: Mapping[str, Callable[[onnx.NodeProto, int], Counts]] = {
    "If": _if,
    "Loop": _loop,
    "Scan": _scan,
    "SequenceMap": _map,
}
