"""Compares every intermediate value of an executor with onnxruntime's, and finds the first node that is wrong by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from trtsmith.converter.locate.batches import Batch, batch_of, batches, halves
from trtsmith.converter.locate.confirm import Confirmation
from trtsmith.converter.locate.executors.executor import Arrays, Executor, Onnxruntime
from trtsmith.converter.locate.fault_graph import GraphView, with_outputs
from trtsmith.converter.locate.node_fault import NodeFault
from trtsmith.converter.locate.node_judge import arithmetic, node_errors
from trtsmith.converter.locate.probe import Value
from trtsmith.converter.locate.region import region_of
from trtsmith.converter.model.errors import TrtsmithError
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.signs_of_life import notes_of
from trtsmith.converter.verify.allowance import allowance
from trtsmith.converter.verify.compare import Comparison, compare

Progress = Callable[[str], None]
DISTURBED = "TensorRT gives other numbers for it only where values between nodes are outputs"


@dataclass(frozen=True)
class Seen:
    """One value: how far the executor's is from onnxruntime's, with all that came before. node: index of its maker."""

    node: int
    comparison: Comparison


@dataclass(frozen=True)
class Skipped:
    """A value that could not be looked at, and why."""

    name: str
    reason: str


@dataclass
class Search:
    """What was found so far.

    suspects: nodes that were computed wrongly where the model's own outputs were wrong, too, and that were acquitted
        (trtsmith.converter.locate.confirm.Confirmed). They are among those skipped.
    agreed: whether the model's own outputs were right in a run with more of them.
    """

    seen: list[Seen] = field(default_factory=list)
    faults: list[NodeFault] = field(default_factory=list)
    suspects: list[NodeFault] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    agreed: bool = False


def search(
    view: GraphView,
    values: Mapping[str, Value],
    feeds: Arrays,
    executor: Executor,
    limit: int,
    agrees: Callable[[Arrays], bool],
    progress: Progress,
    *,
    everything: bool = False,
) -> Search:
    """Compare batch by batch; stop after the batch in which a fault was found, or look at everything.

    values: what onnxruntime's run knows of the values that can be looked at. limit: bytes of intermediate values at a
    time, once on the host for onnxruntime's and once for the executor's. agrees: whether the
    model's own outputs are right.
    """
    found = Search()
    found.skipped += [
        Skipped(
            name, f"{values[name].dtype} cannot be an output" if name in values else "no tensor of numbers"
        )
        for name in view.made
        if name not in values or values[name].dtype not in executor.types
    ]
    usable = {name: value for name, value in values.items() if value.dtype in executor.types}
    confirmation = Confirmation(view, usable, feeds, executor)
    waiting = list(batches(view, usable, limit))
    while waiting:
        batch = batch_of(view, usable, waiting.pop(0).nodes)
        if not batch.marks:
            continue
        marked = marked_model(view, usable, batch.marks)
        try:
            actual = executor.execute(marked, feeds)
        except TrtsmithError as error:  # not these outputs, or not so many at a time
            if len(batch.nodes) > 1:
                waiting[:0] = halves(view, usable, batch)
            else:
                made = [name for name in view.nodes[batch.nodes[0]].output if name in usable]
                found.skipped += [Skipped(name, error.problems[0].what) for name in made]
                for name in made:
                    del usable[name]
            continue
        expected = Onnxruntime().execute(marked, feeds)
        notes_of(progress)(f"{executor.name}: {len(batch.marks)} values of {len(batch.nodes)} nodes compared")
        agreed = agrees(actual)
        found.agreed |= agreed
        faults = _judge(view, batch, usable, feeds, expected, actual, executor, found)
        if faults and executor.fuses:
            confirmed = confirmation.of(faults, batch.marks, {**feeds, **actual})
            seen, faults = faults, [*confirmed.faults]
            found.suspects += () if agreed else confirmed.acquitted
            wrong = {fault.node for fault in faults}
            found.skipped += [
                Skipped(name, DISTURBED) for f in seen if f.node not in wrong for name in f.region.outputs
            ]
        found.faults += faults
        if found.faults and not everything:
            break
    return found


def marked_model(view: GraphView, values: Mapping[str, Value], marks: Iterable[str]) -> Model:
    """The model with more of its values as outputs."""
    return with_outputs(view.model, (values[name].info() for name in marks))


def _judge(
    view: GraphView,
    batch: Batch,
    values: Mapping[str, Value],
    feeds: Arrays,
    expected: Arrays,
    actual: Arrays,
    executor: Executor,
    found: Search,
) -> list[NodeFault]:
    """Compare each node's outputs; of a node whose outputs differ, see whether it is wrong by itself."""
    faults = []
    given = {**feeds, **{name: actual[name] for name in batch.marks}}
    known = frozenset(given)
    precision = arithmetic((values[name].dtype for name in batch.marks), executor.tf32)
    marked = {name: expected[name] for name in batch.marks}
    noise = allowance(marked, None, precision, view.model.proto).noise
    for index in batch.nodes:
        outputs = [name for name in view.nodes[index].output if name in values]
        overall = compare({n: expected[n] for n in outputs}, actual, noise=noise)
        found.seen += [Seen(index, c) for c in overall]
        if all(c.agrees for c in overall):
            continue
        region = region_of(view, index, known)
        local = node_errors(view, region, given, values, executor)
        if local is not None and not all(c.agrees for c in local):
            kept = {n: given[n] for n in (*region.inputs, *region.outputs)}
            faults.append(NodeFault(region, kept, local, overall))
    return faults
