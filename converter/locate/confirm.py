"""Confirms that a node is wrong if the executor computes several nodes in one kernel.

An output in the middle of such a kernel is computed apart from what goes on inside: the reader of a value can differ from
the value that was asked for by what the two round, and be right. And the output can be wrong where what goes on inside is
right: TensorRT-RTX 1.6.1 was seen to leave slices and transposes that were asked for unwritten, though what reads them was
computed from the right values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from trtsmith.converter.base.errors import TrtsmithError
from trtsmith.converter.locate.node_judge import node_errors
from trtsmith.converter.locate.search import NodeFault
from trtsmith.converter.locate.searched_graph import Region, SearchedGraph, region_of
from trtsmith.converter.verify.compare import Comparison
from trtsmith.importers.opdef import Arrays

MOST_ALONE = 8
"""Nodes of which engines of their own are built, to see whether they are wrong alone."""


@dataclass
class Confirmation:
    """Confirms faults of one graph. Engines of single regions are built once each, MOST_ALONE at most in a run."""

    graph: SearchedGraph
    _alone: dict[NodeFault, bool | None] = field(default_factory=dict)
    _most: int = MOST_ALONE

    def of(
        self, faults: Sequence[NodeFault], marks: Sequence[str], seen: Arrays
    ) -> tuple[list[NodeFault], list[NodeFault]]:
        """Splits nodes into wrong and acquitted ones.

        Wrong are those that what reads their nodes does not disprove, and that are there in an engine of the node alone,
        or without the node's inputs as outputs. Acquitted are others that had been computed wrongly in the run in which
        they were seen, and from which the rest of the run was computed.
        marks: the outputs that were asked for when the faults were seen. seen: these and the graph's inputs.
        """
        self._most = len(self._alone) + MOST_ALONE
        faults = [*self._left(faults, seen).values()]
        company: set[NodeFault] = set()
        longer: dict[NodeFault, NodeFault] = {}
        suspects = {fault.node for fault in faults}
        waiting = faults
        while waiting:
            now = _apart(waiting)
            waiting = [fault for fault in waiting if fault not in now]
            try:
                given = {**self.graph.feeds, **self._without_inputs_of(now, marks)}
            except TrtsmithError:  # then what was seen must do
                company.update(now)
                continue
            for fault, again in self._left(now, given).items():
                if suspects.isdisjoint(again.region.nodes[:-1]):
                    company.add(fault)
                else:  # between the two stands another suspect, whose fault it may be
                    longer[fault] = again
        found = [
            fault if fault in company else self._doubtful(fault, longer.get(fault), faults)
            for fault in faults
        ]
        told = [self._with_alone(fault) for fault in found if fault is not None]
        return told, [self._with_alone(faults[i]) for i, kept in enumerate(found) if kept is None]

    def wrong_alone(self, fault: NodeFault) -> bool | None:
        """Tells whether an engine of the fault's region alone is wrong for the same inputs; None if unknown."""
        if fault.alone is not None:
            return fault.alone
        if fault not in self._alone and len(self._alone) < self._most:
            model, inputs = self.graph.alone(fault.region, fault.given)
            try:
                outputs = self.graph.executor.execute(model, inputs)
            except TrtsmithError:  # there can be no such engine
                self._alone[fault] = None
            else:
                self._alone[fault] = not _agree(
                    node_errors(self.graph, fault.region, {**fault.given, **outputs})
                )
        return self._alone.get(fault)

    def _with_alone(self, fault: NodeFault) -> NodeFault:
        return replace(fault, alone=self._alone.get(fault, fault.alone))

    def _left(self, faults: Sequence[NodeFault], given: Arrays) -> dict[NodeFault, NodeFault]:
        """The faults that are there in a run, too, as they are there.

        given: the values of the run. A fault is not there if its outputs follow from values that no fault made, or if what
        reads them was made of the right ones.
        """
        given = {
            name: array
            for name, array in given.items()
            if name in self.graph.values or name in self.graph.feeds
        }
        doubted = {name: given[name] for fault in faults for name in fault.region.outputs}
        trusted = {name: array for name, array in given.items() if name not in doubted}
        waiting, before = list(faults), -1
        while len(waiting) != before:  # what is trusted now can show what another's readers had
            before = len(waiting)
            for fault in [*waiting]:
                made = {name: doubted[name] for name in fault.region.outputs}
                known = trusted | made
                region = region_of(self.graph.table, fault.node, known)
                if _agree(node_errors(self.graph, region, known)):
                    trusted |= made
                    waiting.remove(fault)
                elif self._is_read_rightly(region, known):
                    waiting.remove(fault)
        left = {}
        for fault in waiting:
            region = region_of(self.graph.table, fault.node, given)
            local = node_errors(self.graph, region, given)
            if local is not None and not _agree(local):
                kept = {name: given[name] for name in (*region.inputs, *region.outputs)}
                left[fault] = replace(fault, region=region, given=kept, local=local)
        return left

    def _without_inputs_of(self, faults: Sequence[NodeFault], marks: Sequence[str]) -> Arrays:
        """A run in which inputs of the faults are no outputs, and what reads the faults is."""
        hidden = {name for fault in faults for name in fault.region.inputs}
        made = {name for fault in faults for name in fault.region.outputs}
        read = self.graph.table.made_by(self._readers(made, self.graph.values))
        asked = [n for n in dict.fromkeys((*marks, *read)) if n not in hidden and n in self.graph.values]
        return self.graph.executor.execute(self.graph.marked(asked), self.graph.feeds)

    def _doubtful(
        self, fault: NodeFault, longer: NodeFault | None, faults: Sequence[NodeFault]
    ) -> NodeFault | None:
        """The fault, if it is there alone, or with suspects before it which are right alone: what was seen of their
        outputs may be wrong."""
        if self.wrong_alone(fault):
            return fault
        if longer is None:
            return None
        before = [other for other in faults if other.node in longer.region.nodes[:-1]]
        return longer if not any(map(self.wrong_alone, before)) and self.wrong_alone(longer) else None

    def _readers(self, names: Iterable[str], known: Collection[str]) -> list[int]:
        """Nodes that read the values, and those behind them that read what is not known of these."""
        waiting, found = list(names), dict[int, None]()
        while waiting:
            for i in self.graph.table.readers.get(waiting.pop(), ()):
                if i not in found:
                    found[i] = None
                    waiting += (
                        made for made in self.graph.table.nodes[i].output if made and made not in known
                    )
        return [*found]

    def _is_read_rightly(self, region: Region, given: Arrays) -> bool:
        """Whether what reads the region was made of the right outputs, and shows that it was not made of those given.

        Readers that come to the same by both tell nothing. Nothing can be made of some: then it was not made of them.
        """
        made = set(region.outputs)
        without = given.keys() - made
        proofs = []
        for reader in self._readers(region.outputs, given):
            behind = region_of(self.graph.table, reader, given)
            if behind.outputs:
                as_given = _agree(node_errors(self.graph, behind, given))
                as_right = _agree(
                    node_errors(self.graph, region_of(self.graph.table, reader, without), given)
                )
                proofs += [] if as_given and as_right else [as_right]
        return bool(proofs) and all(proofs) and made.isdisjoint(self.graph.table.outputs)


def _agree(local: Iterable[Comparison] | None) -> bool:
    return local is not None and all(c.agrees for c in local)


def _apart(faults: Sequence[NodeFault]) -> list[NodeFault]:
    """Chooses the faults to look at in one run: no output of one is another's input."""
    chosen: list[NodeFault] = []
    inputs: set[str] = set()
    outputs: set[str] = set()
    for fault in faults:
        if inputs.isdisjoint(fault.region.outputs) and outputs.isdisjoint(fault.region.inputs):
            chosen.append(fault)
            inputs.update(fault.region.inputs)
            outputs.update(fault.region.outputs)
    return chosen
