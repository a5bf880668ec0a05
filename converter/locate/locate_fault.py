"""Searches for the wrong node: the rewritten graph against the original, then an executor against the rewritten graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from trtsmith.converter.base.errors import TrtsmithError
from trtsmith.converter.base.progress import Progress, notes_of
from trtsmith.converter.engine.reduction.node_table import NodeTable
from trtsmith.converter.locate.confirm import MOST_ALONE, Confirmation
from trtsmith.converter.locate.describe import advice, growths, node_report, origin_of, seen_report
from trtsmith.converter.locate.executors.emulation import Emulation
from trtsmith.converter.locate.executors.executor import Executor, OriginalValues, ProbedValue, probe
from trtsmith.converter.locate.found import AGREE, ENGINE, NODE, REWRITE, ROUNDING, UNEXPLAINED, Located
from trtsmith.converter.locate.node_groups import GroupSearch
from trtsmith.converter.locate.node_judge import OutputJudge, arithmetic
from trtsmith.converter.locate.reduced_precision import ReducedNodes, fewest
from trtsmith.converter.locate.save_repro import (
    Reproducer,
    check_folder,
    kernel_alone,
    reproducer,
    rewrite_reproducer,
    save_reproducer,
)
from trtsmith.converter.locate.search import Confirm, Search, search
from trtsmith.converter.locate.searched_graph import ReplayKernel, SearchedGraph, SearchOptions
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.rewrite import Rewritten, expand, reference
from trtsmith.converter.verify.compare import Comparison
from trtsmith.importers.opdef import Arrays


@dataclass(frozen=True, eq=False)
class SearchGround:
    """The graphs, inputs and executor of a search.

    feeds:  of all inputs of the original, those frozen since among them. inputs: what they are, for the report.
    replay: None: there is nothing to run a plugin's kernel alone with.
    reduced: the rewritten graph in the precision of the engine, which the executor runs; None: it is `rewritten` itself.
    reduction: how it came to that precision; None where its types are its own.
    """

    original: Model
    rewritten: Rewritten
    feeds: Arrays
    executor: Executor
    inputs: str
    replay: ReplayKernel | None = None
    reduced: Rewritten | None = None
    reduction: ReducedNodes | None = None


def locate(ground: SearchGround, options: SearchOptions, progress: Progress) -> Located:
    """Compares all comparable values and names the faulty node.

    ConversionError if onnxruntime or the executor cannot run the model at all; UsageError for the environment.
    """
    if options.folder is not None:
        check_folder(options.folder, force=True)  # whose files they are is asked by who takes the command
    work = _FaultSearch(
        ground.original,
        ground.rewritten,
        ground.feeds,
        ground.executor,
        options,
        ground.inputs,
        progress,
        ground.replay,
        ground.reduction,
    )
    reduced = replace(work, rewritten=ground.reduced or ground.rewritten)
    return work.rewrite() or (
        reduced.emulated() if isinstance(ground.executor, Emulation) else reduced.engine()
    )


@dataclass(frozen=True, eq=False)
class _FaultSearch:
    """One search. Its methods are its steps."""

    original: Model
    rewritten: Rewritten
    feeds: Arrays
    executor: Executor
    options: SearchOptions
    inputs: str
    progress: Progress
    replay: ReplayKernel | None
    reduction: ReducedNodes | None

    @cached_property
    def table(self) -> NodeTable:
        return NodeTable(self.rewritten.model)

    @property
    def engine_feeds(self) -> dict[str, np.ndarray]:
        return self._judge.engine_feeds

    @cached_property
    def values(self) -> dict[str, ProbedValue]:
        """The rewritten graph's values in onnxruntime."""
        return probe(expand(self.rewritten.model), self.table.made, self.engine_feeds)

    def rewrite(self) -> Located | None:
        """Compares the rewritten graph with the original in onnxruntime; None if it is right."""
        if not (self.rewritten.rewrites or self.rewritten.frozen or self.rewritten.io_types):
            return None
        model = reference(self.original)
        made = dict.fromkeys((*NodeTable(model).made, *(v.name for v in model.proto.graph.output)))
        known = probe(model, made, self.feeds)
        dtypes = {name: value.dtype for name, value in known.items()}
        dtypes |= {io.name: io.after for io in self.rewritten.io_types}
        common = {name: value for name, value in self.values.items() if dtypes.get(name) == value.dtype}
        against = OriginalValues(model, self.feeds, known, self.rewritten.io_types)
        found = self._search(self._graph(against, common), lambda outputs: True)
        if not found.faults:
            return None
        fault = found.faults[0]
        saved = rewrite_reproducer(self.original, self.table, fault, {**fault.given, **self.feeds})
        return self._culprits(REWRITE, against.name, found, saved, None)

    def engine(self) -> Located:
        """Compares the executor with onnxruntime on the rewritten graph."""
        given, built = self.options.outputs, self.executor.execute(self.rewritten.model, self.engine_feeds)
        graph = self._graph(self.executor, self.values)
        confirmation = Confirmation(graph)
        groups = GroupSearch(graph, self.options, self._judge, self._origin)
        fresh = not self._judge.off(built)
        right = fresh if given is None else not self._judge.off(given)
        notes_of(self.progress)(
            f"{self.executor.name}: the model's outputs {'agree' if fresh else 'disagree'}"
        )
        found = self._search(graph, lambda outputs: not self._judge.beyond(outputs), confirmation.of)
        beyond = () if fresh or not self.executor.fuses else self._judge.beyond(built)
        if found.faults:
            return self._wrong_node(found, beyond, confirmation, groups)
        located = self._located(AGREE, self.executor.name, found)
        if fresh and not right:
            return replace(located, status=ENGINE)
        if beyond and found.suspects:
            return groups.at_jumps(found.suspects, found, replace(located, outputs=beyond))
        if beyond and found.agreed:
            return groups.in_a_range(found, replace(located, outputs=beyond))
        outputs = built if given is None else given
        disagreeing = self._judge.off_the_original(outputs, self.rewritten)
        if fresh and not disagreeing:
            return located
        disagreeing = disagreeing or self._judge.off(outputs)
        located = replace(located, growth=() if fresh else growths(self.table, found.seen))
        located = replace(located, status=UNEXPLAINED if beyond else ROUNDING)
        more = () if fresh or not self.executor.fuses else self._judge.told_growth(built)
        return self._rounded(located, disagreeing, more)

    def emulated(self) -> Located:
        """Compares the outputs of the graph in its types, emulated, with the original's: no engine has nodes to suspect."""
        outputs = self.executor.execute(self.rewritten.model, self.engine_feeds)
        disagreeing = self._judge.off_the_original(outputs, self.rewritten)
        located = Located(ROUNDING if disagreeing else AGREE, self.executor.name, self.inputs, emulated=True)
        return self._rounded(located, disagreeing, ()) if disagreeing else located

    def _rounded(
        self, located: Located, disagreeing: tuple[Comparison, ...], more: tuple[str, ...]
    ) -> Located:
        """No node is wrong: which is the precision, what outputs disagree, and what can be done? more: advice."""
        precision = arithmetic((v.dtype for v in self.values.values()), self.executor.tf32)
        wide = self._fewest()
        located = replace(located, precision=precision, outputs=disagreeing)
        told = (*more, *advice(precision, disagreeing, self.reduction, wide))
        return replace(located, wide=wide or (), advice=told)

    def _fewest(self) -> tuple[str, ...] | None:
        """Nodes that make the outputs agree when they are in float32; None where that could not be tried."""
        try:
            return fewest(self.reduction, self._agrees_when) if self.reduction is not None else None
        except TrtsmithError as error:
            notes_of(self.progress)(f"it could not be tried: {error.problems[0].what}")
            return None

    def _agrees_when(self, wider: Rewritten) -> bool:
        """Whether the outputs agree with the original's when other nodes have the reduced type."""
        feeds = replace(self, rewritten=wider).engine_feeds
        self.progress(f"{self.executor.name}: with other nodes in float32")
        return not self._judge.off_the_original(self.executor.execute(wider.model, feeds), wider)

    def _graph(self, executor: Executor, values: Mapping[str, ProbedValue]) -> SearchedGraph:
        return SearchedGraph(self.table, {**values}, self.engine_feeds, executor, self.progress)

    def _search(
        self, graph: SearchedGraph, agrees: Callable[[Arrays], bool], confirm: Confirm | None = None
    ) -> Search:
        return search(graph, self.options.memory, agrees, confirm, everything=self.options.everything)

    @cached_property
    def _judge(self) -> OutputJudge:
        return OutputJudge(self.original, self.feeds, self.rewritten, self.options, self.executor.tf32)

    def _origin(self, index: int) -> str:
        return origin_of(self.table.nodes[index].name, self.rewritten.rewrites)

    def _wrong_node(
        self,
        found: Search,
        beyond: tuple[Comparison, ...],
        confirmation: Confirmation,
        groups: GroupSearch,
    ) -> Located:
        """The first of the nodes that are wrong where they stand which is wrong alone, too; else the first.

        beyond: the model's outputs that are further off than rounding explains; if there are any and all nodes are right
        alone, nodes are wrong together.

        What fuses may compute a node twice, once for the output that was asked for and once within its reader: then
        the reader seems to be wrong by as much as the two differ.
        """
        faults, alone = found.faults, None
        if self.executor.fuses:
            tried = [replace(faults[0], alone=confirmation.wrong_alone(faults[0]))]
            if tried[0].alone is False:
                tried += [replace(f, alone=confirmation.wrong_alone(f)) for f in faults[1:MOST_ALONE]]
            chosen = next((i for i, fault in enumerate(tried) if fault.alone), 0)
            alone = tried[chosen].alone
            if beyond and alone is False:
                located = self._located(AGREE, self.executor.name, found)
                return groups.at_jumps([*found.suspects, *tried], found, replace(located, outputs=beyond))
            faults.insert(0, faults.pop(chosen))
        saved = reproducer(groups.graph, faults[0])
        return self._culprits(NODE, self.executor.name, found, saved, alone)

    def _culprits(
        self, status: str, against: str, found: Search, saved: Reproducer, alone: bool | None
    ) -> Located:
        reports = [
            node_report(self.table, f.node, f.given, f, found.seen, self._origin(f.node))
            for f in found.faults
        ]
        reports[0] = replace(reports[0], alone=alone)
        kernel = kernel_alone(self.replay, saved) if status == NODE and saved.plugin else ""
        located = replace(self._located(status, against, found), nodes=tuple(reports), kernel=kernel)
        if self.options.folder is None:
            return located
        save_reproducer(saved, self.options.folder)
        return replace(located, folder=str(self.options.folder))

    def _located(self, status: str, against: str, found: Search) -> Located:
        return Located(
            status,
            against,
            self.inputs,
            values=tuple(map(seen_report, found.seen)),
            skipped=tuple(found.skipped),
        )
