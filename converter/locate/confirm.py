"""Whether a node that seems to be wrong is, where the executor computes several nodes in one kernel.

An output in the middle of such a kernel is computed apart from what goes on inside: the reader of a value can differ from
the value that was asked for by what the two round, and be right. To ask for a value can even make another one wrong:
TensorRT-RTX 1.6.1 was seen to give zeros for a slice of a loop's result where the result was an output as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from converter.errors import TrtsmithError
from converter.locate.executor import Arrays, Executor
from converter.locate.graph import GraphView, with_outputs
from converter.locate.local import local_errors
from converter.locate.probe import Value
from converter.locate.region import Region, region_model, region_of

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
        """Those that are there in an engine of the node alone, or without the node's inputs as outputs.

        marks: the outputs that were asked for when the faults were seen.
        """
        suspects = {fault.node for fault in faults}
        company: set[Fault] = set()
        waiting = list(faults)
        while waiting:
            now = _apart(waiting)
            hidden = {name for fault in now for name in fault.region.inputs}
            asked = [name for name in marks if name not in hidden]
            company.update(self._in_company(now, asked, suspects))
            waiting = [fault for fault in waiting if fault not in now]
        found, doubtful = [], 0
        for fault in faults:
            if fault in company:
                found.append(fault)
            elif doubtful < MOST_ALONE:
                doubtful += 1
                if wrong_alone(self.view, fault, self.values, self.executor):
                    found.append(replace(fault, alone=True))
        return found

    def _in_company(self, faults: Sequence[Fault], asked: Sequence[str], suspects: set[int]) -> list[Fault]:
        """Which of them are there when the values in `asked` are outputs, from what is known before them then.

        Where another suspect stands between the two, it may be that one's fault.
        """
        marked = with_outputs(self.view.model, (self.values[name].info() for name in asked))
        try:
            given = {**self.feeds, **self.executor.execute(marked, self.feeds)}
        except TrtsmithError:  # then what was seen must do
            return list(faults)
        found = []
        for fault in faults:
            region = region_of(self.view, fault.node, given)
            others = suspects.intersection(region.nodes) - {fault.node}
            if not others and _wrong(self.view, region, given, self.values, self.executor):
                found.append(fault)
        return found


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
    return _wrong(view, region, {**given, **outputs}, values, executor)


def _wrong(
    view: GraphView, region: Region, given: Arrays, values: Mapping[str, Value], executor: Executor
) -> bool:
    return any(not c.agrees for c in local_errors(view, region, given, values, executor))


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
