"""Holds the active user functions that compute nodes in place of onnxruntime."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from trtsmith.converter.base.user_function import UserFunction, UserFunctionError
from trtsmith.importers.counted import counted
from trtsmith.importers.declared.declared_fields import OF_PARSER

A = onnx.AttributeProto


@dataclass(frozen=True)
class NodeFunction:
    """A function for one operator's nodes: (inputs..., **attributes) -> outputs. op_type: Op, or domain::Op."""

    op_type: str
    function: UserFunction

    def computes(self, domain: str, op_type: str) -> bool:
        """Tells whether the function computes nodes of this kind."""
        wanted, _, name = self.op_type.rpartition("::")
        return name == op_type and wanted in ("", domain)

    def outputs(self, node: onnx.NodeProto, inputs: Sequence[np.ndarray | None]) -> list[np.ndarray]:
        """Returns the node's outputs. Unexpected float64 outputs are cast to the type of the first floating-point input."""
        what = f"for node {node.name!r} ({node.op_type})"
        keywords = {a.name: _plain(a) for a in node.attribute if a.name not in OF_PARSER}
        found = self.function.call(inputs, keywords, what)
        if isinstance(found, dict) or len(found) != len(node.output):
            raise UserFunctionError(
                f"{self.function.name} returned {counted(len(found), 'output')}",
                f"{self.function.flag} {self.op_type}={self.function.name}, {what}",
                f"{len(node.output)}, as the node has: an array, or a tuple of them",
                "return every output of the node, in its order",
            )
        floats = [one.dtype for one in inputs if one is not None and one.dtype.kind not in "iub"]
        narrow = floats[0] if floats and np.float64 not in floats else None
        return [
            one.astype(narrow)
            if narrow is not None and one.dtype == np.float64
            else np.ascontiguousarray(one)
            for one in found
        ]


_IN_FORCE: ContextVar[tuple[NodeFunction, ...]] = ContextVar("node functions", default=())


@contextmanager
def calling(functions: Sequence[NodeFunction]) -> Iterator[None]:
    """Makes these functions compute their operators' nodes, instead of onnxruntime, inside the block."""
    token = _IN_FORCE.set(tuple(functions))
    try:
        yield
    finally:
        _IN_FORCE.reset(token)


def function_for(domain: str, op_type: str) -> NodeFunction | None:
    """Returns the active function for nodes of this kind; functions that name the domain come first."""
    found = [one for one in _IN_FORCE.get() if one.computes("" if domain == "ai.onnx" else domain, op_type)]
    return min(found, key=lambda one: "::" not in one.op_type, default=None)


def calls_functions(graph: onnx.GraphProto) -> bool:
    """Tells whether an active function computes a node of the graph or its subgraphs."""
    if not _IN_FORCE.get():
        return False
    return any(
        function_for(node.domain, node.op_type) is not None
        or any(calls_functions(inner) for a in node.attribute for inner in (a.g, *a.graphs))
        for node in graph.node
    )


def _plain(attribute: A) -> Any:
    value = helper.get_attribute_value(attribute)
    if attribute.type == A.STRING:
        return value.decode("utf-8", "replace")
    if attribute.type == A.TENSOR:
        return numpy_helper.to_array(value)
    if attribute.type in (A.INTS, A.FLOATS):
        return list(value)
    if attribute.type == A.STRINGS:
        return [one.decode("utf-8", "replace") for one in value]
    return value
