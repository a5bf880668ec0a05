"""Whether a node that seems to be wrong is, where the executor computes several nodes in one kernel.

An output in the middle of such a kernel is computed apart from what goes on inside: the reader of a value can differ from
the value that was asked for by what the two round, and be right. And the output can be wrong where what goes on inside is
right: TensorRT-RTX 1.6.1 was seen to leave slices and transposes that were asked for unwritten, though what reads them was
computed from the right values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from converter.errors import TrtsmithError
from converter.locate.executor import Arrays, Executor
from converter.locate.graph import GraphView, with_outputs
from converter.locate.local import local_errors
from converter.locate.probe import Value
from converter.locate.region import Region, region_model, region_of
from converter.verify import Comparison

if TYPE_CHECKING:
    from converter.locate.search import Fault


MOST_ALONE = 8
"""Nodes of which engines of their own are built, to see whether they are wrong alone."""


@dataclass(frozen=True)
class Confirmation:
    """What it is asked with: the graph, the values that can be looked at, the graph's inputs, and who computes."""

    view: GraphView
    values: Mapping[str, Value]
    feeds: Arrays
    executor: Executor

    def of(self, faults: Sequence[Fault], marks: Sequence[str]) -> list[Fault]:
        """Those that are there in an engine of the node alone, or without the node's inputs as outputs and where what
        reads the node is wrong, too.

        marks: the outputs that were asked for when the faults were seen.
        """
        company: set[Fault] = set()
        longer: dict[Fault, Fault] = {}
        waiting = list(faults)
        while waiting:
            now = _apart(waiting)
            hidden = {name for fault in now for name in fault.region.inputs}
            read = [n for fault in now for i in self._readers(fault) for n in self.view.nodes[i].output]
            asked = [n for n in dict.fromkeys((*marks, *read)) if n not in hidden and n in self.values]
            try:
                given = {**self.feeds, **self._execute(asked)}
            except TrtsmithError:  # then what was seen must do
                company.update(now)
            else:
                for fault in now:
                    region = region_of(self.view, fault.node, given)
                    kept = {n: given[n] for n in (*region.inputs, *region.outputs)}
                    longer[fault] = replace(fault, region=region, given=kept)
                company.update(self._in_company(now, longer, given, {fault.node for fault in faults}))
            waiting = [fault for fault in waiting if fault not in now]
        alone = _Alone(self)
        found = (
            fault if fault in company else self._doubtful(fault, longer[fault], faults, alone)
            for fault in faults
        )
        return [alone.told(fault) for fault in found if fault is not None]

    def _execute(self, asked: Sequence[str]) -> Arrays:
        marked = with_outputs(self.view.model, (self.values[name].info() for name in asked))
        return self.executor.execute(marked, self.feeds)

    def _in_company(
        self, faults: Sequence[Fault], longer: Mapping[Fault, Fault], given: Arrays, suspects: set[int]
    ) -> Iterator[Fault]:
        """Which of them are there in the run of `given`, in which their inputs were no outputs, from what is known then.

        Where another suspect stands between the two, it may be that one's fault.
        """
        for fault in faults:
            region = longer[fault].region
            wrong = suspects.isdisjoint(region.nodes[:-1]) and self._disagrees(region, given)
            if wrong and not self._is_read_rightly(fault, given):
                yield fault

    def _doubtful(self, fault: Fault, longer: Fault, faults: Sequence[Fault], alone: _Alone) -> Fault | None:
        """The fault, if it is there alone, or with suspects before it which are right alone: what was seen of their
        outputs may be wrong."""
        if alone.wrong(fault):
            return fault
        before = [other for other in faults if other.node in longer.region.nodes[:-1]]
        if before and not any(map(alone.wrong, before)) and alone.wrong(longer):
            return longer
        return None

    def _readers(self, fault: Fault) -> list[int]:
        """Nodes that read the values that the fault's node makes, not their shapes alone."""
        made = set(fault.region.outputs)
        readers = [i for i, names in enumerate(self.view.reads) if not made.isdisjoint(names)]
        return [i for i in readers if not self.view.varying.isdisjoint(self.view.nodes[i].output)]

    def _is_read_rightly(self, fault: Fault, given: Arrays) -> bool:
        """Whether all that is known of what reads the node is what the right outputs of the node make."""
        made = set(fault.region.outputs)
        if not made.isdisjoint(self.view.outputs):
            return False
        known = given.keys() - made
        regions = [region_of(self.view, reader, known) for reader in self._readers(fault)]
        found = [c for region in regions if region.outputs for c in self._compare(region, given)]
        return bool(found) and all(c.agrees for c in found)

    def _disagrees(self, region: Region, given: Arrays) -> bool:
        return any(not c.agrees for c in self._compare(region, given))

    def _compare(self, region: Region, given: Arrays) -> tuple[Comparison, ...]:
        return local_errors(self.view, region, given, self.values, self.executor)


class _Alone:
    """Engines of faults' regions alone, each built once, and not more than MOST_ALONE."""

    def __init__(self, asking: Confirmation) -> None:
        self._asking = asking
        self._known: dict[Fault, bool | None] = {}

    def wrong(self, fault: Fault) -> bool | None:
        """None where that is not known."""
        if fault not in self._known and len(self._known) < MOST_ALONE:
            self._known[fault] = wrong_alone(
                self._asking.view, fault, self._asking.values, self._asking.executor
            )
        return self._known.get(fault)

    def told(self, fault: Fault) -> Fault:
        """The fault with what is known of it."""
        return replace(fault, alone=self._known.get(fault))


def wrong_alone(
    view: GraphView, fault: Fault, values: Mapping[str, Value], executor: Executor
) -> bool | None:
    """Whether an engine of the fault's region alone is wrong for the same inputs; None if there can be no such engine."""
    if fault.alone is not None:
        return fault.alone
    region, given = fault.region, fault.given
    constants = frozenset(region.inputs) - view.varying  # TensorRT wants shapes constant
    infos = [values[name].info() for name in region.outputs]
    model = region_model(view, region, given, infos, constants)
    try:
        outputs = executor.execute(model, {n: given[n] for n in region.inputs if n not in constants})
    except TrtsmithError:
        return None
    found = local_errors(view, region, {**given, **outputs}, values, executor)
    return any(not c.agrees for c in found)


def _apart(faults: Sequence[Fault]) -> list[Fault]:
    """As many of them as can be looked at in one run: of none are the outputs another one's inputs, which are hidden."""
    chosen: list[Fault] = []
    inputs: set[str] = set()
    outputs: set[str] = set()
    for fault in faults:
        if inputs.isdisjoint(fault.region.outputs) and outputs.isdisjoint(fault.region.inputs):
            chosen.append(fault)
            inputs.update(fault.region.inputs)
            outputs.update(fault.region.outputs)
    return chosen
