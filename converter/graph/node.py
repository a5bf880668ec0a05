"""One node of a graph during editing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import onnx

from trtsmith.importers.registry import normalise_domain

if TYPE_CHECKING:
    from trtsmith.converter.graph.scope import Scope


class Node:
    """A node's frequently used properties, and the scopes of its subgraphs.

    proto:  to be read; `edit` gives one to write to. What it reads and makes is changed by `Scope.rewire` alone.
    domain: "" for ONNX's own.
    inputs, outputs: value names, "" where one is left out.
    gone:   whether it was taken out of its graph.
    """

    __slots__ = ("_own", "domain", "gone", "inputs", "op_type", "outputs", "proto", "scope", "scopes")

    def __init__(self, proto: onnx.NodeProto, scope: Scope, own: bool) -> None:
        """own: whether the proto belongs to the graph, and not to the model that the graph was made from."""
        self.proto = proto
        self.op_type: str = sys.intern(proto.op_type)
        domain = proto.domain
        self.domain: str = sys.intern(normalise_domain(domain)) if domain else ""
        # A name is in a dozen tables, and looked up many times: one string, whose hash is known.
        self.inputs: tuple[str, ...] = tuple(map(sys.intern, proto.input))
        self.outputs: tuple[str, ...] = tuple(map(sys.intern, proto.output))
        self.scope = scope
        self.scopes: tuple[Scope, ...] = ()
        self.gone = False
        self._own = own

    @property
    def name(self) -> str:
        return str(self.proto.name)

    @property
    def kind(self) -> tuple[str, str]:
        """(domain, op_type)"""
        return self.domain, self.op_type

    @property
    def label(self) -> str:
        """The node's name, or that of its first output if it has none."""
        return str(self.proto.name) or next((name for name in self.outputs if name), self.op_type)

    def rename(self, name: str) -> None:
        """Renames the node; its old name stays taken."""
        self.edit().name = name
        self.scope.whole.names.count_node(name)

    def edit(self) -> onnx.NodeProto:
        """Copies the proto for editing; the model that the graph was made from keeps the original."""
        if not self._own:
            self.proto = self.scope.whole.adopt(self.proto)
            self._own = True
        self.scope.touch()
        return self.proto

    def reads(self) -> Iterator[str]:
        """Returns the values that the node or its subgraphs read."""
        yield from filter(None, self.inputs)
        for scope in self.scopes:
            yield from scope.results
            for inner in scope.nodes:
                yield from inner.reads()
