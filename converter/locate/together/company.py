"""Tells which nodes TensorRT computes wrongly together, and saves a part of the graph that shows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from trtsmith.converter.locate.advice import together_advice
from trtsmith.converter.locate.describe import node_report
from trtsmith.converter.locate.executors.executor import Arrays, Executor
from trtsmith.converter.locate.fault_graph import GraphView
from trtsmith.converter.locate.found import FUSION, Located, SharedTensor
from trtsmith.converter.locate.fusion import narrow
from trtsmith.converter.locate.node_fault import NodeFault
from trtsmith.converter.locate.node_judge import OutputJudge
from trtsmith.converter.locate.options import SearchOptions
from trtsmith.converter.locate.probe import Value
from trtsmith.converter.locate.save_repro import Reproducer, save_reproducer
from trtsmith.converter.locate.search import DISTURBED, Progress, Search, marked_model
from trtsmith.converter.locate.together.jumps import MINOR, first_jumps, jump_size
from trtsmith.converter.locate.together.regions import consecutive, regions_about
from trtsmith.converter.locate.together.shared import SharedInput, shared_inputs
from trtsmith.converter.locate.together.trial import RegionTrial
from trtsmith.converter.model.errors import TrtsmithError


@dataclass(frozen=True, eq=False)
class CompanySearch:
    """view, values, feeds, executor: the graph, what can be looked at, its inputs, and who computes. origin: of a node, what
    it stands for in the original model."""

    view: GraphView
    values: Mapping[str, Value]
    feeds: Arrays
    executor: Executor
    options: SearchOptions
    judge: OutputJudge
    progress: Progress
    origin: Callable[[int], str]

    def at_jumps(self, suspects: Sequence[NodeFault], found: Search, located: Located) -> Located:
        """The nodes at which the error comes up in an engine with values as outputs. suspects: one at least."""
        jumps = first_jumps(self.view, suspects)
        shared = {f.node: shared_inputs(self.view, f.node, self._usable, self.feeds) for f in jumps}
        saved, size = None, 0
        for region in regions_about(self.view, jumps[0].node, shared[jumps[0].node]):
            saved = self._trial.of(region, MINOR * jump_size(jumps[0])) if self.options.folder else None
            if saved is not None:
                size = len(saved.model.proto.graph.node)
                break
        nodes = tuple(
            replace(
                node_report(self.view, f.node, f.given, f, found.seen, self.origin(f.node)), alone=f.alone
            )
            for f in jumps
        )
        told = tuple(self._told(f.node, one) for f in jumps for one in shared[f.node])
        kept_once = [one.name for one in told if one.fill is not None]
        wrong = {name for f in suspects for name in f.region.outputs}
        skipped = tuple(s for s in located.skipped if s[0] not in wrong or s[1] != DISTURBED)
        advice = together_advice(size, kept_once, single=True)
        return self._saved(
            replace(located, status=FUSION, nodes=nodes, shared=told, skipped=skipped, advice=advice), saved
        )

    def in_a_range(self, found: Search, located: Located) -> Located:
        """The nodes that TensorRT must be free to compute together for the error to be there."""
        skipped = {s.name for s in found.skipped}

        def persists(marks: Sequence[str]) -> bool:
            self.progress(f"{self.executor.name}: with {len(marks)} values between nodes as outputs")
            try:
                outputs = self.executor.execute(marked_model(self.view, self._usable, marks), self.feeds)
            except TrtsmithError:
                return False
            return bool(self.judge.beyond(outputs))

        marks = {n: v for n, v in self._usable.items() if n not in skipped}
        first, last = narrow(self.view, marks, self.options.memory, persists)
        region = consecutive(self.view, first, last, last)
        least = MINOR * min([1.0, *(c.relative for c in located.outputs if c.relative)])
        saved = self._trial.of(region, least) if self.options.folder else None
        nodes = tuple(
            node_report(self.view, i, {}, None, (), self.origin(i)) for i in dict.fromkeys((first, last))
        )
        size = len(saved.model.proto.graph.node) if saved is not None else 0
        between = "make values between these nodes outputs of the model: with outputs there the error is gone"
        advice = (*together_advice(size, (), single=False), between)
        return self._saved(replace(located, status=FUSION, nodes=nodes, advice=advice), saved)

    def _saved(self, located: Located, saved: Reproducer | None) -> Located:
        if saved is None or self.options.folder is None:
            return located
        save_reproducer(saved, self.options.folder)
        return replace(located, folder=str(self.options.folder))

    def _told(self, index: int, shared: SharedInput) -> SharedTensor:
        equal = {name: tuple(map(self.view.label, readers)) for name, readers in shared.equal.items()}
        readers = tuple(map(self.view.label, shared.readers))
        return SharedTensor(shared.name, self.view.label(index), shared.times, readers, equal, shared.fill)

    @cached_property
    def _usable(self) -> dict[str, Value]:
        return {n: v for n, v in self.values.items() if v.dtype in self.executor.types}

    @cached_property
    def _trial(self) -> RegionTrial:
        return RegionTrial(self.view, self._usable, self.feeds, self.executor, self.progress)
