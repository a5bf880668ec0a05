"""Judges nodes and outputs like `trtsmith verify`: by the effect of rounding in the engine's precision."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from trtsmith.converter.base.errors import TrtsmithError
from trtsmith.converter.locate.executors.executor import Executor, Onnxruntime, run_in_types
from trtsmith.converter.locate.searched_graph import Region, SearchedGraph, SearchOptions
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.precision.formats import FORMATS
from trtsmith.converter.rewrite.rewrite import Rewritten, reference
from trtsmith.converter.rewrite.types import to_engine, to_model
from trtsmith.converter.verify.allowance import FACTOR, Allowance, allowance
from trtsmith.converter.verify.compare import Comparison, compare
from trtsmith.converter.verify.constant_outputs import RANDOM, random_outputs
from trtsmith.converter.verify.meaning.compared_outputs import RoundedRuns, compared
from trtsmith.converter.verify.meaning.selections import find_selections
from trtsmith.converter.verify.reduced import run_reduced
from trtsmith.converter.verify.rounding import rounded
from trtsmith.converter.verify.sensitivity import SHAKEN, most_moved
from trtsmith.converter.verify.tolerances import TOLERANCE
from trtsmith.importers.opdef import Arrays

LOOPS = frozenset({"If", "Loop", "Scan"})
"""Nodes that are graphs: what they round early may grow in them, so elements and slices decide and not a ratio of norms.
The first steps of a loop are slices in which nothing has grown yet."""

EXPLAINED = 5.0
"""Rounding explains errors up to this multiple of what is allowed. Of networks that were run on an H200, those in
which nothing but rounding was found were off by 1.1 to 3.5 times that, those that were computed wrongly by 25 and more."""


def arithmetic(dtypes: Iterable[str], tf32: bool) -> str:
    """Returns one of verify.rounding.PRECISIONS. dtypes: of the graph's values; tf32: whether products are in TF32."""
    have = set(dtypes)
    return next((flag for flag, fmt in FORMATS.items() if fmt.name in have), "tf32" if tf32 else "fp32")


def node_errors(graph: SearchedGraph, region: Region, given: Arrays) -> tuple[Comparison, ...] | None:
    """Compares the region's outputs in `given` with onnxruntime's from its inputs; () for random operators.

    None where onnxruntime can compute nothing from these inputs, as from sizes that do not fit.
    Allowed is what rounding to the executor's precision changes in these nodes, as for the outputs of a network
    (trtsmith.converter.verify.allowance). An output of which rounding changes too much to tell agrees.
    """
    kinds = {graph.table.nodes[i].op_type for i in region.nodes}
    if not kinds.isdisjoint(RANDOM):
        return ()
    executor = graph.executor
    model, inputs = graph.alone(region, given)
    outputs = {name: given[name] for name in region.outputs}
    dtypes = (str(given[name].dtype) for name in (*region.inputs, *region.outputs))
    precision = arithmetic(dtypes, executor.tf32)
    try:
        expected = Onnxruntime().execute(model, inputs)
        decide = {name for one in find_selections(model).values() for name in one.watched()}
        scores = {name: array for name, array in inputs.items() if name in decide}
        _, found = compared(model, expected, outputs, RoundedRuns(precision, expected | scores))
        if all(c.agrees for c in found):
            return found
        narrow = _rounded(model, inputs, precision, executor)
    except TrtsmithError:
        return None
    ways = [] if narrow is None else [{**narrow, **scores}]
    measured, found = compared(model, expected, outputs, RoundedRuns(precision, expected | scores, ways))
    unknown = measured.excluded(None).keys()
    grows = not kinds.isdisjoint(LOOPS)
    return tuple(
        replace(c, agrees=True)
        if (c.output in unknown and c.compared) or (grows and _by_norm_alone(c))
        else c
        for c in found
    )


def _by_norm_alone(c: Comparison) -> bool:
    """Whether floats are all finite where they should be, and none is further off than its own bound."""
    return c.used is not None and not (c.beyond or c.slice or "int" in c.dtype or c.dtype == "bool")


def _rounded(model: Model, inputs: Arrays, precision: str, executor: Executor) -> Arrays | None:
    """The nodes' results with values rounded to the precision; None where the graph rounds them already."""
    if precision not in FORMATS:
        return Onnxruntime().execute(rounded(model, precision), inputs)
    return run_reduced(model, inputs, float16_sums=True) if executor.float16_sums else None


@dataclass(frozen=True, eq=False)
class OutputJudge:
    """Judges the model's outputs, except those that random numbers decide.

    feeds: of all inputs of the original. options: with what rounding changes of the outputs; where that was not measured,
    floats may differ by TOLERANCE, of float16 for an executor that multiplies in tf32.
    """

    original: Model
    feeds: Arrays
    rewritten: Rewritten
    options: SearchOptions
    tf32: bool

    @cached_property
    def engine_feeds(self) -> dict[str, np.ndarray]:
        """Returns the rewritten graph's remaining inputs, in its types."""
        held = {tensor.name for tensor in self.rewritten.model.proto.graph.initializer}
        names = (v.name for v in self.rewritten.model.proto.graph.input if v.name not in held)
        return to_engine({name: self.feeds[name] for name in names}, self.rewritten.io_types)

    def off(self, outputs: Arrays) -> tuple[Comparison, ...]:
        """Finds the outputs of an executor that disagree with onnxruntime's on the rewritten graph."""
        return self._disagreeing(self._expected, outputs)

    def off_the_original(self, outputs: Arrays, of: Rewritten) -> tuple[Comparison, ...]:
        """Finds the outputs of a graph, in its own types, that disagree with the original's."""
        return self._disagreeing(self._wanted, to_model(outputs, of.io_types))

    def beyond(self, outputs: Arrays) -> tuple[Comparison, ...]:
        """Finds the outputs whose error neither rounding nor its growth in the network explains."""
        far = self._far(outputs)
        known = {name: max(self._measured.allowed[name], FACTOR * self._moved[name]) for name in far}
        grown = compare({n: self._expected[n] for n in far}, outputs, None, _times(known))
        names = {c.output for c in grown if not c.agrees and np.isfinite(self._moved[c.output])}
        return tuple(c for c in self.off(outputs) if c.output in names) if names else ()

    def told_growth(self, outputs: Arrays) -> tuple[str, ...]:
        """Advises on outputs whose error rounding explains only because it grows, one sentence each."""
        beyond = {c.output for c in self.beyond(outputs)}
        grown = [name for name in self._far(outputs) if name not in beyond]
        return tuple(
            f"try other inputs (--inputs): for these the network is ill-conditioned; moving them by {SHAKEN:.0e} of "
            f"themselves, as rounding in float32 does, changes {name!r} by {self._moved[name]:.0%} in onnxruntime, too"
            for name in grown
        )

    def _disagreeing(self, expected: Arrays, actual: Arrays) -> tuple[Comparison, ...]:
        known, tolerances = self.options.rounding, self.options.tolerances
        if known is None:
            found = compare(expected, actual, tolerances)
        else:
            _, found = compared(self.original, expected, actual, known, tolerances)
        return tuple(c for c in found if not c.agrees)

    def _far(self, outputs: Arrays) -> list[str]:
        """Outputs that are further off than EXPLAINED times what they may be."""
        noise = {name: noise.times(EXPLAINED) for name, noise in self._measured.noise.items()}
        told = {name: self._expected[name] for name in self._measured.allowed if name in self._expected}
        found = compare(told, outputs, None, _times(self._measured.allowed), noise=noise)
        return [c.output for c in found if not c.agrees]

    def _told(self, outputs: Arrays) -> dict[str, np.ndarray]:
        random = random_outputs(self.original)
        return {name: value for name, value in outputs.items() if name not in random}

    @cached_property
    def _expected(self) -> dict[str, np.ndarray]:
        return self._told(Onnxruntime().execute(self.rewritten.model, self.engine_feeds))

    @cached_property
    def _wanted(self) -> dict[str, np.ndarray]:
        known = self.options.rounding
        if known is None or known.plain is None:
            return self._told(run_in_types(reference(self.original), self.feeds))
        # in float32, where the graph's precision was decided in place of the model's own types
        return self._told({value.name: known.plain[value.name] for value in self.original.proto.graph.output})

    @cached_property
    def _measured(self) -> Allowance:
        """What each output may differ by; those that rounding decides are left out."""
        known = self.options.rounding
        if known is not None:
            return allowance(known.plain or {}, known.ways, known.precision, self.original.proto)
        least = TOLERANCE["float16" if self.tf32 else "float32"]
        whole = {name: value.dtype.kind in "iub" for name, value in self._expected.items()}
        return Allowance({name: 0.0 if exact else least for name, exact in whole.items()})

    @cached_property
    def _moved(self) -> dict[str, float]:
        """By output, the most that float inputs which are SHAKEN change of it; infinity where its shape changes."""
        run = Onnxruntime().execute
        return most_moved(self._expected, self.engine_feeds, lambda feeds: run(self.rewritten.model, feeds))


def _times(allowed: Mapping[str, float]) -> dict[str, float]:
    return {name: EXPLAINED * known for name, known in allowed.items()}
