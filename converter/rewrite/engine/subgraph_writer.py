"""Writes the graph inside a node of a replacement: the body of a Scan or a Loop."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper

from trtsmith.converter.graph.walk import values_read
from trtsmith.converter.rewrite.engine.statement_writer import Writer
from trtsmith.importers.dtypes import NUMBERS


class SubgraphWriter(Writer):
    """A Writer of nodes inside: it reads what `outer` wrote before, whose graph gets the constants, too."""

    def __init__(self, outer: Writer) -> None:
        super().__init__(outer.node)
        self._outer = outer
        self._names = dict(outer._names)
        self._results = {}
        self._inputs: list[onnx.ValueInfoProto] = []

    def const(self, value: np.ndarray, hint: str = "c") -> str:
        outer = self._outer.const(value, hint)
        local = self.name(hint)
        self._names[local] = self._outer._names[outer]
        return local

    def argument(self, dtype: str) -> str:
        """The next input of the graph inside, of an element type."""
        local = self.name("argument")
        self._names[local] = self.node.fresh("argument")
        self._inputs.append(helper.make_tensor_value_info(self._names[local], NUMBERS[dtype], None))
        return local

    def graph_of(self, results: Sequence[str], dtype: str = "float32") -> onnx.GraphProto:
        """The graph that gives these values, each of `dtype`, with no node that is not needed for them."""
        distinct = [
            self.do("Identity", name) for name in results
        ]  # an output is no other output, and no input
        needed = {self._names[name] for name in distinct}
        outputs = [helper.make_tensor_value_info(self._names[n], NUMBERS[dtype], None) for n in distinct]
        kept = []
        for node in reversed(self._nodes):
            if needed.intersection(node.output):
                needed.update(values_read(node))
                kept.append(node)
        return helper.make_graph(kept[::-1], self.node.fresh("body"), self._inputs, outputs)
