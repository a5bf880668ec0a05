"""Holds the searched graph, its executor and the options, and cuts nodes out of it as separate models."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from trtsmith.converter.base.progress import Progress
from trtsmith.converter.engine.reduction.graph_cut import WholeGraph, closed, cut
from trtsmith.converter.engine.reduction.node_table import NodeTable
from trtsmith.converter.engine.reduction.value_sizes import MOST_SIZES, ValueSizes
from trtsmith.converter.graph.infer import infer_shapes
from trtsmith.converter.locate.executors.executor import Executor, Onnxruntime, ProbedValue, with_outputs
from trtsmith.converter.model.model import Model
from trtsmith.converter.plugin.replay import Replay
from trtsmith.converter.verify.meaning.compared_outputs import RoundedRuns
from trtsmith.converter.verify.tolerances import Tolerances
from trtsmith.importers.opdef import Arrays

MEMORY = 1 << 30
"""Bytes of intermediate values at a time, by default: they are held twice on the host, and on the device once."""

ReplayKernel = Callable[[Model, Arrays, Arrays], Replay | None]
"""Runs the kernel of a model's one plugin node alone, on these inputs, and compares; None where it cannot be run."""


@dataclass(frozen=True)
class SearchOptions:
    """Options of a search. memory: bytes of intermediate values at a time. everything: go on after the first culprit.

    folder: where the minimal model is saved; None: nowhere. outputs: what an engine that is there already gave for
    the same inputs, in the engine's types; None: there is no such engine. rounding: by what the model's outputs may
    differ where `tolerances` says nothing of them; None: it was not measured.
    """

    memory: int = MEMORY
    everything: bool = False
    folder: Path | None = None
    tolerances: Tolerances | None = None
    outputs: Arrays | None = None
    rounding: RoundedRuns | None = None


@dataclass(frozen=True)
class Region:
    """A part of the graph. nodes: numbers in the main graph, mostly one; the node in question is last. inputs, outputs:
    values.
    """

    nodes: tuple[int, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def region_of(table: NodeTable, number: int, known: Collection[str]) -> Region:
    """Returns the region of a node: the node and its predecessors back to known values.

    known: names of values that are given, of graph inputs too. Outputs are those of the node that are among them.
    """
    inside = closed(WholeGraph(table, ValueSizes({}, {}, {}), given=known), {number})
    nodes = tuple(sorted(n for n in inside if table.entries[n].parent is None))
    made = set(table.made_by(nodes))
    read = dict.fromkeys(name for n in nodes for name in table.reads[n])
    inputs = tuple(name for name in read if name in known and name not in made)
    return Region(nodes, inputs, tuple(name for name in table.nodes[number].output if name in known))


def part_of(table: NodeTable, nodes: Collection[int], shown: Collection[int]) -> Region:
    """Makes a part of these nodes and all that they read. Outputs: values that none of them reads, and those of `shown`."""
    ordered = tuple(sorted(nodes))
    made = table.made_by(ordered)
    read = dict.fromkeys(name for n in ordered for name in table.reads[n])
    given = (name for name in read if name in table.producer or name in table.inputs)
    outputs = (name for name in made if name not in read or table.producer[name] in shown)
    return Region(ordered, tuple(name for name in given if name not in made), tuple(outputs))


def region_model(
    table: NodeTable,
    region: Region,
    values: Arrays,
    outputs: Iterable[onnx.ValueInfoProto],
    constants: Collection[str] = (),
) -> Model:
    """Makes the region a model: nodes, the initializers that they read, and values as inputs in their actual sizes.

    constants: inputs that become initializers with their values, as shapes are that an engine of fixed sizes knows.
    """
    given = {name: np.asarray(values[name]) for name in region.inputs}
    sizes = ValueSizes(
        {name: _type_of(array) for name, array in given.items() if name not in constants},
        {name: (array.shape,) for name, array in given.items()},
        {name: (given[name],) for name in constants},
    )
    part = cut(WholeGraph(table, sizes, given=given), table.with_bodies(region.nodes)).proto
    del part.graph.output[:]
    part.graph.output.extend(outputs)
    return infer_shapes(table.model.with_proto(part))


def _type_of(array: np.ndarray) -> onnx.TypeProto.Tensor:
    elem_type = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_type_proto(elem_type, array.shape).tensor_type


@dataclass(frozen=True, eq=False)
class SearchedGraph:
    """The graph to search. values: possible outputs, as onnxruntime has them. feeds: its inputs. executor: under test."""

    table: NodeTable
    values: dict[str, ProbedValue]
    feeds: Arrays
    executor: Executor
    progress: Progress

    def known(self) -> set[str]:
        """Names the possible outputs and the graph's inputs."""
        return {*self.values, *self.feeds}

    def marked(self, names: Iterable[str]) -> Model:
        """Returns the model with more of its values as outputs."""
        return with_outputs(self.table.model, (self.values[name].info() for name in names))

    def right(self, names: Iterable[str]) -> dict[str, np.ndarray]:
        """Returns onnxruntime's values of these names, and the graph's inputs."""
        infos = [self.values[name].info() for name in names if name in self.values]
        asked = with_outputs(self.table.model, infos, only=True)
        return {**self.feeds, **(Onnxruntime().execute(asked, self.feeds) if infos else {})}

    def alone(self, region: Region, given: Arrays) -> tuple[Model, dict[str, np.ndarray]]:
        """Returns the region as a model, and its inputs. Possible sizes, which TensorRT wants constant, are constants.

        Those are few numbers, whatever the graph's inputs are. Larger values of that kind stay inputs: of a graph of
        constants alone TensorRT computes nothing when it runs.
        """
        fixed = frozenset(region.inputs) - self.table.varying
        sizes = {name for name in fixed if np.size(given[name]) <= MOST_SIZES}
        infos = [self.values[name].info() for name in region.outputs]
        model = region_model(self.table, region, given, infos, sizes)
        return model, {name: np.asarray(given[name]) for name in region.inputs if name not in sizes}
