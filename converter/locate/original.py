"""Runs the original model to compare the rewritten graph with, by the values that have kept their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trtsmith.converter.locate.executors.executor import COMPARABLE, Arrays, run_in_types
from trtsmith.converter.locate.fault_graph import with_outputs
from trtsmith.converter.locate.probe import Value
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.types import IoType, to_engine


@dataclass(frozen=True, eq=False)
class Original:
    """An executor that answers with the original's values, whatever graph it is given.

    model: in a form that onnxruntime runs (rewrite.rewrite.reference). feeds: of all its inputs, those frozen since
    among them. values: what can be asked for. io_types: values are given in the engine's types.
    """

    model: Model
    feeds: Arrays
    values: Mapping[str, Value]
    io_types: Sequence[IoType] = ()

    name = "the original"
    types = COMPARABLE
    tf32 = float16_sums = fuses = False

    def execute(self, model: Model, feeds: Arrays) -> dict[str, np.ndarray]:
        """The values that are outputs of `model`; `feeds` are not read."""
        infos = (self.values[value.name].info() for value in model.proto.graph.output)
        found = run_in_types(with_outputs(self.model, infos, only=True), self.feeds)
        return to_engine(found, self.io_types)
