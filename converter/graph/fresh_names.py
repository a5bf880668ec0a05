"""Makes unused names for new values and nodes, similar to the requested ones."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable

import onnx

from trtsmith.converter.graph.walk import all_graphs


class FreshNames:
    """The taken names. A name that was handed out is taken from then on."""

    def __init__(self) -> None:
        self._nodes: defaultdict[str, int] = defaultdict(int)  # how many have the name
        self._values: set[str] = set()
        self._numbers: defaultdict[str, int] = defaultdict(int)

    @classmethod
    def of(cls, proto: onnx.ModelProto) -> FreshNames:
        """Takes the names of all values of a model, also in subgraphs."""
        names = cls()
        for graph in all_graphs(proto.graph):
            names.take(value.name for value in (*graph.input, *graph.initializer))
            for node in graph.node:
                names.take(node.output)
        return names

    def take(self, values: Iterable[str]) -> None:
        self._values.update(values)

    def count_node(self, name: str) -> None:
        """Counts one more node of that name."""
        self._nodes[name] += 1

    def uncount_node(self, name: str) -> None:
        """Counts one node less. The name is not given out again."""
        self._nodes[name] -= 1

    def nodes_called(self, name: str) -> int:
        """Counts the nodes that have the name."""
        return self._nodes.get(name, 0)

    def value(self, wanted: str) -> str:
        """Makes a value name like `wanted`."""
        name = wanted
        while name in self._values:
            self._numbers[wanted] += 1
            name = f"{wanted}_{self._numbers[wanted]}"
        name = sys.intern(name)  # as the node that makes it has it
        self._values.add(name)
        return name

    def node(self, wanted: str) -> str:
        """Makes a node name like `wanted`. The node that gets it counts once it is in the graph."""
        name = wanted
        while name in self._nodes:
            self._numbers["node " + wanted] += 1
            name = f"{wanted}_{self._numbers['node ' + wanted]}"
        self._nodes[name] = 0
        return name
