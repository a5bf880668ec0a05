"""Defines what an executor of graphs with plugin nodes has to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from trtsmith.converter.locate.executors.edges import plain_edges
from trtsmith.converter.locate.executors.emulation import emulation
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.rewrite import expand

Arrays = Mapping[str, np.ndarray]

COMPARABLE = frozenset(
    {
        "float64", "float32", "float16", "bfloat16", "bool",
        "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    }
)  # fmt: skip
"""Element types that a comparison knows."""


class Executor(Protocol):
    """Runs models whose outputs are intermediate values of another.

    name:  what runs it, for the report.
    types: element types that it can give back as outputs.
    tf32:  whether it multiplies float32 matrices with 10-bit mantissas, as TensorRT does on GPUs that can.
    float16_sums: whether it sums products of float16 in float16, as TensorRT-RTX does.
    fuses: whether it may compute several nodes in one kernel, which an output in between prevents.
    """

    name: str
    types: frozenset[str]
    tf32: bool
    fuses: bool

    @property
    def float16_sums(self) -> bool: ...

    def execute(self, model: Model, feeds: Arrays) -> dict[str, np.ndarray]:
        """All outputs of the model. ConversionError if it cannot be run with these outputs; UsageError for the rest."""
        ...


class Onnxruntime:
    """onnxruntime on the CPU, plugin nodes expanded: the reference, and node by node as the model says.

    Nodes of reduced types compute in float32 and round their results once (trtsmith.converter.locate.executors.emulation).
    """

    name = "onnxruntime"
    types = COMPARABLE
    tf32 = float16_sums = fuses = False

    def execute(self, model: Model, feeds: Arrays) -> dict[str, np.ndarray]:
        return run_in_types(expand(model), feeds)


def run_in_types(model: Model, feeds: Arrays) -> dict[str, np.ndarray]:
    """All outputs of a model in standard operators, in its own types, of whatever type its edges and values are."""
    wide = emulation(model)
    edges = plain_edges(wide.model)
    found = run(edges.model, edges.put_in(wide.put_in(feeds)), optimise=False)
    return wide.take_out(edges.take_out(found))
