"""Tries whether an engine of a part of the graph alone shows an error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trtsmith.converter.locate.describe import ranges
from trtsmith.converter.locate.executors.executor import Arrays, Executor, Onnxruntime
from trtsmith.converter.locate.fault_graph import GraphView, op_name, with_outputs
from trtsmith.converter.locate.node_judge import node_errors
from trtsmith.converter.locate.probe import Value
from trtsmith.converter.locate.region import Region, region_model, sizes_among
from trtsmith.converter.locate.save_repro import Reproducer
from trtsmith.converter.locate.search import Progress
from trtsmith.converter.model.errors import TrtsmithError


@dataclass(frozen=True)
class RegionTrial:
    """values: what can be an output. feeds: the graph's inputs. executor: what computes wrongly."""

    view: GraphView
    values: Mapping[str, Value]
    feeds: Arrays
    executor: Executor
    progress: Progress

    def of(self, region: Region, least: float) -> Reproducer | None:
        """An engine of it that is wrong, from the numbers that onnxruntime has; None if it is right or cannot be tried.

        least: the ratio of norms below which an error is not the one that is looked for.
        """
        outputs = tuple(name for name in region.outputs if name in self.values)
        if not outputs or not all(name in self.values or name in self.feeds for name in region.inputs):
            return None
        region = Region(region.nodes, region.inputs, outputs)
        given = self._given(region)
        constants = sizes_among(self.view, region, given)
        infos = [self.values[name].info() for name in outputs]
        inputs = {name: given[name] for name in region.inputs if name not in constants}
        self.progress(f"{self.executor.name}: an engine of {len(region.nodes)} nodes alone")
        try:
            model = region_model(self.view, region, given, infos, constants)
            actual = self.executor.execute(model, inputs)
            local = node_errors(self.view, region, {**given, **actual}, self.values, self.executor)
            wrong = [c for c in local or () if not c.agrees and (not c.relative or c.relative >= least)]
            if not wrong:
                return None
            expected = Onnxruntime().execute(model, inputs)
        except TrtsmithError:
            return None
        reasons = "; ".join(f"{c.output}: {c.reason}" for c in wrong)
        text = f"{self._told(region)} {reasons}\n\ninputs:\n{ranges(inputs)}\noutputs:\n{ranges(actual)}"
        return Reproducer(model, inputs, expected, actual, text, what="these nodes")

    def _given(self, region: Region) -> Arrays:
        """What the region reads, as onnxruntime has it."""
        infos = [self.values[name].info() for name in region.inputs if name in self.values]
        if not infos:
            return dict(self.feeds)
        return {
            **self.feeds,
            **Onnxruntime().execute(with_outputs(self.view.model, infos, only=True), self.feeds),
        }

    def _told(self, region: Region) -> str:
        first, last = (
            f"{self.view.label(i)!r} ({op_name(self.view.nodes[i])})"
            for i in (region.nodes[0], region.nodes[-1])
        )
        return f"Nodes between {first} and {last} are computed wrongly together:"
