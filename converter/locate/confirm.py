"""Whether a node that seems to be wrong is, where the executor computes several nodes in one kernel.

An output in the middle of such a kernel is computed apart from what goes on inside: the reader of a value can differ from
the value that was asked for by what the two round, and be right. To ask for a value can even make another one wrong:
TensorRT-RTX 1.6.1 was seen to give zeros for a slice of a loop's result where the result was an output as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from converter.errors import TrtsmithError
from converter.locate.executor import Arrays, Executor
from converter.locate.graph import GraphView, with_outputs
from converter.locate.local import local_errors
from converter.locate.probe import Value
from converter.locate.region import Region, region_model, region_of

if TYPE_CHECKING:
    from converter.locate.search import Fault


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
        kept: list[Fault] = []
        waiting = list(faults)
        while waiting:
            read = {name for fault in waiting for name in fault.region.inputs}
            # Of several in a row the last comes first: its outputs nobody reads who has to be looked at.
            now = [fault for fault in waiting if not read.intersection(fault.region.outputs)]
            hidden = {name for fault in now for name in fault.region.inputs}
            kept += self._among(now, [name for name in marks if name not in hidden])
            waiting = [fault for fault in waiting if fault not in now]
        return [fault for fault in faults if fault in kept]

    def _among(self, faults: Sequence[Fault], asked: Sequence[str]) -> list[Fault]:
        """Which of them are there when the values in `asked` are outputs, from what is known before them then."""
        marked = with_outputs(self.view.model, (self.values[name].info() for name in asked))
        try:
            given = {**self.feeds, **self.executor.execute(marked, self.feeds)}
        except TrtsmithError:  # then what was seen must do
            return list(faults)
        return [
            fault
            for fault in faults
            if self._wrong(region_of(self.view, fault.node, given), given) or self._wrong_alone(fault)
        ]

    def _wrong(self, region: Region, given: Arrays) -> bool:
        found = local_errors(self.view, region, given, self.values, self.executor)
        return any(not c.agrees for c in found)

    def _wrong_alone(self, fault: Fault) -> bool:
        """Whether an engine of the fault's region alone is wrong for the same inputs. One that cannot be is not."""
        region, given = fault.region, fault.given
        constants = frozenset(region.inputs) - self.view.varying  # TensorRT wants shapes constant
        infos = [self.values[name].info() for name in region.outputs]
        model = region_model(self.view, region, given, infos, constants)
        try:
            outputs = self.executor.execute(model, {n: given[n] for n in region.inputs if n not in constants})
        except TrtsmithError:
            return False
        return self._wrong(region, {**given, **outputs})
