"""Compares every intermediate value of an executor with onnxruntime's, and finds the first node that is wrong by itself."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from trtsmith.converter.base.errors import TrtsmithError
from trtsmith.converter.base.progress import notes_of
from trtsmith.converter.locate.executors.executor import Onnxruntime
from trtsmith.converter.locate.node_judge import arithmetic, node_errors
from trtsmith.converter.locate.searched_graph import Region, SearchedGraph, region_of
from trtsmith.converter.verify.allowance import allowance
from trtsmith.converter.verify.compare import Comparison, compare
from trtsmith.importers.counted import counted
from trtsmith.importers.opdef import Arrays

DISTURBED = "TensorRT gives other numbers for it only where values between nodes are outputs"


@dataclass(frozen=True, eq=False)
class NodeFault:
    """A node that is wrong by itself.

    region:   the node, with those before it whose values could not be looked at.
    given:    inputs and outputs of the region, as the executor had them.
    local:    outputs against onnxruntime's for those inputs.
    overall:  outputs against onnxruntime's in the whole model.
    alone:    whether an engine of the region alone is wrong as well; None: none was built.
    """

    region: Region
    given: Arrays
    local: tuple[Comparison, ...]
    overall: tuple[Comparison, ...]
    alone: bool | None = None

    @property
    def node(self) -> int:
        return self.region.nodes[-1]


@dataclass(frozen=True)
class Seen:
    """The comparison of a value with onnxruntime's; its error includes that of all earlier nodes. node: number of
    its maker.
    """

    node: int
    comparison: Comparison


@dataclass
class Search:
    """The findings so far. skipped: values that could not be compared, with reasons.

    suspects: nodes that were computed wrongly where the model's own outputs were wrong, too, and that were acquitted. They
        are among those skipped.
    agreed: whether the model's own outputs were right in a run with more of them.
    """

    seen: list[Seen] = field(default_factory=list)
    faults: list[NodeFault] = field(default_factory=list)
    suspects: list[NodeFault] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    agreed: bool = False


Confirm = Callable[
    [Sequence[NodeFault], Sequence[str], Arrays], tuple[Sequence[NodeFault], Sequence[NodeFault]]
]
"""(faults, the outputs that were asked for, their values and the inputs) -> those that are faults, and those acquitted."""


def search(
    graph: SearchedGraph,
    limit: int,
    agrees: Callable[[Arrays], bool],
    confirm: Confirm | None = None,
    *,
    everything: bool = False,
) -> Search:
    """Compares nodes in batches, until a fault is found or, on request, to the end.

    limit: bytes of intermediate values at a time, once on the host for onnxruntime's and once for the executor's.
    agrees: whether the model's own outputs are right. confirm: asked where the executor fuses. Values that turn out to be
    impossible outputs are taken out of the graph's.
    """
    found = Search()
    executor, usable = graph.executor, graph.values
    for name in graph.table.made:
        if name not in usable:
            found.skipped.append((name, "no tensor of numbers"))
        elif usable[name].dtype not in executor.types:
            found.skipped.append((name, f"{usable.pop(name).dtype} cannot be an output"))
    waiting = list(batches(graph, limit))
    while waiting:
        nodes = waiting.pop(0)
        marks = marks_of(graph, nodes, graph.known())
        if not marks:
            continue
        marked = graph.marked(marks)
        try:
            actual = executor.execute(marked, graph.feeds)
        except TrtsmithError as error:  # not these outputs, or not so many at a time
            if len(nodes) > 1:
                waiting[:0] = nodes[: len(nodes) // 2], nodes[len(nodes) // 2 :]
            else:
                made = [name for name in graph.table.made_by(nodes) if name in usable]
                found.skipped += [(name, error.problems[0].what) for name in made]
                for name in made:
                    del usable[name]
            continue
        expected = Onnxruntime().execute(marked, graph.feeds)
        notes_of(graph.progress)(
            f"{executor.name}: {counted(len(marks), 'value')} of {counted(len(nodes), 'node')} compared"
        )
        agreed = agrees(actual)
        found.agreed |= agreed
        faults = list(_faults(graph, nodes, marks, expected, actual, found))
        if faults and confirm is not None and executor.fuses:
            confirmed, acquitted = confirm(faults, marks, {**graph.feeds, **actual})
            found.suspects += () if agreed else acquitted
            wrong = {fault.node for fault in confirmed}
            found.skipped += [(n, DISTURBED) for f in faults if f.node not in wrong for n in f.region.outputs]
            faults = [*confirmed]
        found.faults += faults
        if found.faults and not everything:
            break
    return found


def _faults(
    graph: SearchedGraph,
    nodes: Sequence[int],
    marks: Sequence[str],
    expected: Arrays,
    actual: Arrays,
    found: Search,
) -> Iterator[NodeFault]:
    """Compare each node's outputs; of a node whose outputs differ, see whether it is wrong by itself."""
    given = {**graph.feeds, **{name: actual[name] for name in marks}}
    precision = arithmetic((graph.values[name].dtype for name in marks), graph.executor.tf32)
    marked = {name: expected[name] for name in marks}
    noise = allowance(marked, (), precision, graph.table.model.proto).noise
    for number in nodes:
        outputs = [name for name in graph.table.nodes[number].output if name in graph.values]
        overall = compare({n: expected[n] for n in outputs}, actual, noise=noise)
        found.seen += [Seen(number, c) for c in overall]
        if all(c.agrees for c in overall):
            continue
        region = region_of(graph.table, number, given)
        local = node_errors(graph, region, given)
        if local is not None and not all(c.agrees for c in local):
            kept = {n: given[n] for n in (*region.inputs, *region.outputs)}
            yield NodeFault(region, kept, local, overall)


def marks_of(graph: SearchedGraph, nodes: Sequence[int], known: Collection[str]) -> tuple[str, ...]:
    """Chooses values to add as outputs: the nodes' results, and the last known values before them.

    So a node's inputs and outputs are of one run.
    """
    regions = (region_of(graph.table, number, known) for number in nodes)
    marks = dict.fromkeys(name for region in regions for name in (*region.inputs, *region.outputs))
    return tuple(name for name in marks if name in graph.values)


def batches(graph: SearchedGraph, limit: int) -> Iterator[tuple[int, ...]]:
    """Yields all nodes that make one of the values, in order. limit: bytes of one batch's marks; a single node may have
    more.
    """
    held: list[int] = []
    marked: set[str] = set()
    size, known = 0, graph.known()
    for number in graph.table.outer:
        if not any(name in graph.values for name in graph.table.nodes[number].output):
            continue
        own = set(marks_of(graph, [number], known))
        more = sum(graph.values[name].nbytes for name in own - marked)
        if held and size + more > limit:
            yield tuple(held)
            held, marked, size = [], set(), 0
            more = sum(graph.values[name].nbytes for name in own)
        held.append(number)
        marked |= own
        size += more
    if held:
        yield tuple(held)
