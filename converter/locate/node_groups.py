"""Finds nodes that TensorRT computes wrongly together although each is right alone, and saves a part that shows it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from onnx import helper

from trtsmith.converter.base.errors import TrtsmithError
from trtsmith.converter.engine.reduction.minimise import Nodes, around, narrowed
from trtsmith.converter.engine.reduction.node_table import SIZES_ONLY
from trtsmith.converter.locate.describe import node_report, ranges, together_advice
from trtsmith.converter.locate.found import FUSION, Located, SharedTensor
from trtsmith.converter.locate.node_judge import OutputJudge, node_errors
from trtsmith.converter.locate.save_repro import Reproducer, save_reproducer
from trtsmith.converter.locate.search import DISTURBED, NodeFault, Search
from trtsmith.converter.locate.searched_graph import SearchedGraph, SearchOptions, part_of
from trtsmith.importers.counted import counted
from trtsmith.importers.registry import op_name

MINOR = 0.1
"""Errors below this share of the largest do not count: an output apart from a kernel may be rounded another way."""

SHARING = 6
"""Nodes that share a tensor, at the most, in the first engine that is tried: the nearest."""

MOST = 256
"""Nodes in one engine that is tried."""


@dataclass(frozen=True, eq=False)
class GroupSearch:
    """The search for such nodes. origin: the original node behind a node."""

    graph: SearchedGraph
    options: SearchOptions
    judge: OutputJudge
    origin: Callable[[int], str]

    def at_jumps(self, suspects: Sequence[NodeFault], found: Search, located: Located) -> Located:
        """Finds the nodes at which the error appears in an engine with extra outputs. suspects: at least one."""
        graph, table = self.graph, self.graph.table
        jumps = first_jumps(graph, suspects)
        first, shared = jumps[0], {f.node: shared_inputs(graph, f.node) for f in jumps}
        saved = self._smallest(first.node, shared[first.node], MINOR * jump_size(first))
        nodes = tuple(
            replace(node_report(table, f.node, f.given, f, found.seen, self.origin(f.node)), alone=f.alone)
            for f in jumps
        )
        told = tuple(one for f in jumps for one in shared[f.node])
        wrong = {name for f in suspects for name in f.region.outputs}
        skipped = tuple(s for s in located.skipped if s[0] not in wrong or s[1] != DISTURBED)
        kept_once = [one.name for one in told if one.fill is not None]
        advice = together_advice(_size(saved), kept_once, single=True)
        return self._saved(
            replace(located, status=FUSION, nodes=nodes, shared=told, skipped=skipped, advice=advice), saved
        )

    def in_a_range(self, found: Search, located: Located) -> Located:
        """Finds the nodes that TensorRT must compute together for the error to appear."""
        skipped = {name for name, _ in found.skipped}
        usable = {name: value for name, value in self.graph.values.items() if name not in skipped}
        nodes = self._fused(replace(self.graph, values=usable))
        first, last = min(nodes), max(nodes)
        least = MINOR * min([1.0, *(c.relative for c in located.outputs if c.relative)])
        saved = self._wrong_part(nodes, last, least) if self.options.folder else None
        ends = tuple(
            node_report(self.graph.table, i, {}, None, (), self.origin(i))
            for i in dict.fromkeys((first, last))
        )
        between = "make values between these nodes outputs of the model: with outputs there the error is gone"
        advice = (*together_advice(_size(saved), (), single=False), between)
        return self._saved(replace(located, status=FUSION, nodes=ends, advice=advice), saved)

    def _fused(self, graph: SearchedGraph) -> Nodes:
        """The shortest run of nodes that, alone without outputs between them, give the error; an engine each trial."""
        tried: dict[tuple[str, ...], bool] = {}

        def fails(nodes: Nodes) -> bool:
            marks = marks_outside(graph, nodes, self.options.memory)
            if marks not in tried:
                tried[marks] = self._is_wrong_with(marks)
            return tried[marks]

        every = frozenset(graph.table.outer)
        return narrowed(every, lambda sets: next(filter(fails, sets), None))

    def _is_wrong_with(self, marks: Sequence[str]) -> bool:
        """Whether the model's own outputs are wrong when these values are outputs too."""
        executor = self.graph.executor
        self.graph.progress(f"{executor.name}: with {counted(len(marks), 'value')} between nodes as outputs")
        try:
            outputs = executor.execute(self.graph.marked(marks), self.graph.feeds)
        except TrtsmithError:
            return False
        return bool(self.judge.beyond(outputs))

    def _smallest(self, number: int, shared: Sequence[SharedTensor], least: float) -> Reproducer | None:
        """A part of the graph around a node, and around the nearest of those that share its tensors, that is wrong alone."""
        table = self.graph.table
        names = {name for one in shared for name in (one.name, *one.equal)}
        readers = {i for name in names for i in _readers(self.graph, name)} - {number}
        nearest = sorted(readers, key=lambda i: abs(i - number))[: SHARING - 1]
        makers = {table.producer[name] for name in names - table.varying if name in table.producer}
        start = frozenset((number, *nearest, *makers))
        for nodes in around(start, table.neighbours, MOST) if self.options.folder else ():
            if len(nodes) == len(table.outer):
                break  # that is the model itself
            saved = self._wrong_part(nodes, number, least)
            if saved is not None:
                return saved
        return None

    def _wrong_part(self, nodes: Nodes, shown: int, least: float) -> Reproducer | None:
        """An engine of the nodes that is wrong, from the numbers that onnxruntime has; None if it is right or impossible.

        shown: a node whose values are outputs. least: the ratio of norms below which an error is not the one looked for.
        """
        graph, executor = self.graph, self.graph.executor
        region = part_of(graph.table, nodes, {shown})
        region = replace(region, outputs=tuple(name for name in region.outputs if name in graph.values))
        if not region.outputs or not graph.known().issuperset(region.inputs):
            return None
        graph.progress(f"{executor.name}: an engine of {counted(len(nodes), 'node')} alone")
        try:
            given = graph.right(region.inputs)
            model, inputs = graph.alone(region, given)
            actual = executor.execute(model, inputs)
            local = node_errors(graph, region, {**given, **actual}) or ()
            wrong = [c for c in local if not c.agrees and (not c.relative or c.relative >= least)]
        except TrtsmithError:
            return None
        if not wrong:
            return None
        first, last = (
            f"{graph.table.label(i)!r} ({op_name(graph.table.nodes[i])})" for i in (min(nodes), max(nodes))
        )
        text = (
            f"Nodes between {first} and {last} are computed wrongly together: "
            f"{'; '.join(f'{c.output}: {c.reason}' for c in wrong)}\n\n"
            f"inputs:\n{ranges(inputs)}\noutputs:\n{ranges(actual)}"
        )
        return Reproducer.of(model, inputs, actual, text, what="these nodes")

    def _saved(self, located: Located, saved: Reproducer | None) -> Located:
        if saved is None or self.options.folder is None:
            return located
        save_reproducer(saved, self.options.folder)
        return replace(located, folder=str(self.options.folder))


def _size(saved: Reproducer | None) -> int:
    return 0 if saved is None else len(saved.model.proto.graph.node)


def marks_outside(graph: SearchedGraph, nodes: Collection[int], limit: int) -> tuple[str, ...]:
    """Chooses values of nodes outside a range, nearest first and as many as fit, in graph order.

    What the last node of the range makes is marked too: it is where the range ends. limit: bytes.
    """
    first, last = min(nodes), max(nodes)
    named = [(i, n) for i in graph.table.outer for n in graph.table.nodes[i].output if n in graph.values]
    before = [name for i, name in reversed(named) if i < first]
    after = [name for i, name in named if i >= last]
    chosen: set[str] = set()
    for at in range(max(len(before), len(after))):
        for name in (*before[at : at + 1], *after[at : at + 1]):
            if graph.values[name].nbytes <= limit:
                chosen.add(name)
                limit -= graph.values[name].nbytes
    return tuple(name for name in graph.table.made if name in chosen)


def first_jumps(graph: SearchedGraph, suspects: Iterable[NodeFault]) -> list[NodeFault]:
    """Finds the first nodes at which an error appears, in order: those that follow no other such node."""
    sizes = {fault: jump_size(fault) for fault in suspects}
    least = MINOR * max(sizes.values(), default=0.0)
    large = {fault.node: fault for fault, size in sizes.items() if size >= least}
    reached: set[str] = set()
    first = []
    for i in graph.table.outer:
        behind = not reached.isdisjoint(graph.table.reads[i])
        if i in large and not behind:
            first.append(large[i])
        if i in large or behind:
            reached.update(graph.table.made_by([i]))
    return first


def jump_size(fault: NodeFault) -> float:
    """Measures the error that the node adds: the ratio of norms, at most 1; 1 where shapes or finite places differ."""
    found = (c.relative for c in fault.local if not c.agrees)
    return max((min(r, 1.0) if r and math.isfinite(r) else 1.0 for r in found), default=0.0)


def shared_inputs(graph: SearchedGraph, number: int) -> tuple[SharedTensor, ...]:
    """Finds tensors that others read, and that a node may overwrite in place, since an output has their type and sizes."""
    node, label = graph.table.nodes[number], graph.table.label
    kinds = {_kind(graph, name) for name in node.output} - {None}
    found = []
    for name in dict.fromkeys(filter(None, node.input)):
        if _kind(graph, name) not in kinds:
            continue
        constants = _constants_like(graph, name)
        array = constants.pop(name, None)
        same = [n for n, other in constants.items() if array is not None and np.array_equal(other, array)]
        equal = {n: tuple(map(label, _readers(graph, n))) for n in same}
        times = list(node.input).count(name)
        readers = tuple(label(i) for i in _readers(graph, name) if i != number)
        if times > 1 or readers or any(equal.values()):
            fill = None if array is None or np.unique(array).size != 1 else float(array.reshape(-1)[0])
            found.append(SharedTensor(name, label(number), times, readers, equal, fill))
    return tuple(found)


def _readers(graph: SearchedGraph, name: str) -> list[int]:
    """Nodes that read a value for its numbers."""
    return [i for i in graph.table.readers.get(name, ()) if graph.table.nodes[i].op_type not in SIZES_ONLY]


def _constants_like(graph: SearchedGraph, name: str) -> dict[str, np.ndarray]:
    """Constants of that one's type and sizes, itself among them; none if it is no constant."""
    table, kind = graph.table, _kind(graph, name)
    if name in table.varying:
        return {}
    held = {n: table.model.array(tensor) for n, tensor in table.constants.items() if _kind(graph, n) == kind}
    made = [n for n in table.made if n not in table.varying and _kind(graph, n) == kind]
    return held | {n: array for n, array in graph.right(made).items() if n in made}


def _kind(graph: SearchedGraph, name: str) -> tuple[str, tuple[int, ...]] | None:
    """Type and sizes; None where they are not known."""
    tensor = graph.table.constants.get(name)
    if tensor is not None:
        return str(helper.tensor_dtype_to_np_dtype(tensor.data_type)), tuple(tensor.dims)
    return (graph.values[name].dtype, graph.values[name].shape) if name in graph.values else None
