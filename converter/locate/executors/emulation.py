"""Executes in onnxruntime with values rounded to the graph's types, as a GPU would compute it: without TensorRT or a GPU."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trtsmith.converter.locate.executors.executor import COMPARABLE, plain_edges
from trtsmith.converter.model.model import Model
from trtsmith.converter.verify.reduced import run_reduced
from trtsmith.importers.opdef import Arrays


@dataclass(frozen=True)
class Emulation:
    """An executor that rounds values as the judge of `convert` does, plugin nodes expanded.

    float16_sums: whether products of float16 are summed in float16, as by TensorRT-RTX.
    """

    float16_sums: bool = False

    name = "the emulated graph"
    types = COMPARABLE
    tf32 = fuses = False

    def execute(self, model: Model, feeds: Arrays) -> dict[str, np.ndarray]:
        edges = plain_edges(model)
        found = run_reduced(edges.model, edges.put_in(feeds), float16_sums=self.float16_sums)
        return edges.take_out(found)
