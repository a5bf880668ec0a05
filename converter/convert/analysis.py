"""Analyses a model before the build: TensorRT's graph, and the route of every node.

`rewrite`, `check`, `convert`, `locate`, `bench` and the Python API all begin here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from trtsmith.converter.base.arrays import ArraySource
from trtsmith.converter.base.errors import ConversionError
from trtsmith.converter.base.options.kinds import Freeze
from trtsmith.converter.base.options.shapes import ShapeRange, check_ranges
from trtsmith.converter.base.progress import Progress, steps_of
from trtsmith.converter.convert.fixed_outputs import fixed_outputs
from trtsmith.converter.convert.foreign_nodes import foreign_plugins
from trtsmith.converter.convert.freezing import Values, parse_freeze, rewrite_frozen
from trtsmith.converter.convert.plan import Plan, plan, with_libraries
from trtsmith.converter.convert.precision_request import PrecisionRequest
from trtsmith.converter.convert.workarounds.refusals import Mended
from trtsmith.converter.engine.builder.build_request import BuildResult
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.profile.profile_ranges import ProfileRanges, ranges_of
from trtsmith.converter.rewrite.rewrite import Rewritten, rewrite
from trtsmith.converter.rewrite.target import TENSORRT, Target
from trtsmith.converter.verify.infinite_weights import infinite_weights
from trtsmith.importers.counted import counted
from trtsmith.importers.problem import Problem


@dataclass(frozen=True)
class AnalysisOptions:
    """The options of an analysis. Paths are as the user gave them.

    freeze:  inputs that become constants. frozen: values of all of them, where they are known already; `freeze` and
        `inputs` are then not asked. inputs: example inputs, an .npz file or arrays.
    plugins: the user's own plugin libraries, which are asked for the plugins that they have.
    whole:   whether a precision waits until every node is known to reach TensorRT. A graph that is only written may have
        nodes of plugins that were not named.
    progress: hears of steps that take long, if it is one of converter/base/progress.py.
    as_is:   whether the nodes stay as they are, as TensorRT imports them itself.
    compiled: whether the libraries of plugins from outside are looked for, which an engine needs.
    profiles, values: the shapes of inputs, and the values of shape tensors, for which alone the graph has to hold, one
        mapping for each optimisation profile. What holds in all of them is knowledge; (): nothing is.
    """

    target: Target = TENSORRT
    freeze: Freeze = ()
    frozen: Values | None = None
    inputs: ArraySource | None = None
    plugins: tuple[Path, ...] = ()
    precision: PrecisionRequest = field(default_factory=PrecisionRequest)
    whole: bool = True
    as_is: bool = False
    compiled: bool = True
    profiles: tuple[Mapping[str, ShapeRange], ...] = ()
    values: tuple[Mapping[str, ShapeRange], ...] = ()
    progress: Progress | None = field(default=None, repr=False, compare=False)

    @property
    def ranges(self) -> ProfileRanges | None:
        """The ranges that hold in all profiles; None without profiles."""
        return ranges_of(self.profiles, self.values) if self.profiles or self.values else None


@dataclass(frozen=True)
class Analysis:
    """A model and the plan of its conversion.

    original:  the model as it was read.
    plain:     what the rewriting did, in the model's own precision.
    rewritten: the same in the precision that was asked for: the graph that TensorRT gets.
    plan:      how each node of it reaches TensorRT.
    frozen:    values of the inputs that became constants.
    graph:     the graph of `rewritten`, or what `rewrite` made of it for others than this TensorRT.
    built:     of a build that was tried, what came of it; None where none was, or where TensorRT refused.
    refusal:   why TensorRT refused. mended: refusals that were written around.
    """

    original: Model
    plain: Rewritten
    rewritten: Rewritten
    plan: Plan
    frozen: dict[str, np.ndarray]
    graph: Model
    built: BuildResult | None = None
    refusal: tuple[Problem, ...] = ()
    mended: tuple[Mended, ...] = ()

    def __repr__(self) -> str:
        return f"<Analysis: {self.plan.summary(self.problems)}>"

    @property
    def convertible(self) -> bool:
        """Whether every node reaches TensorRT and, after a trial build, there is an engine."""
        return self.plan.convertible and not self.refusal

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Every problem that prevents the conversion."""
        return (*self.plan.problems, *self.refusal)

    def reworded(self, said: Callable[[str], str]) -> Analysis:
        """The same with other words in its problems and warnings."""
        plan = replace(
            self.plan,
            problems=tuple(one.reworded(said) for one in self.plan.problems),
            warnings=tuple(map(said, self.plan.warnings)),
        )
        return replace(self, plan=plan, refusal=tuple(one.reworded(said) for one in self.refusal))

    def needed(self) -> Analysis:
        """Returns itself. Raises ConversionError with every problem if a node does not reach TensorRT."""
        if not self.convertible:
            raise ConversionError(self.problems)
        return self


@dataclass(frozen=True)
class TrialInputs:
    """Inputs on which float16's range is tried, or 8 bits are calibrated.

    values: of the original's inputs by name; None: there are none. drawn: names of those that were generated.
    """

    values: Values | None = None
    drawn: frozenset[str] = frozenset()


Feeds = Callable[[Analysis], TrialInputs]
"""Finds the inputs of an original model."""


def analyse(
    original: Model, options: AnalysisOptions, feeds: Feeds | None = None, *, given: bool = True
) -> Analysis:
    """Rewrites the model and plans its nodes. A graph that TensorRT refuses keeps its precision, and the plan has the
    problems.

    feeds: asked once it is known that the graph can be converted, and a precision is wanted; None: what `inputs` holds.
    given: whether they are the user's. UsageError: shapes that contradict the model.
    """
    target = replace(options.target, float_lstm=options.target.float_lstm or options.precision.float_lstm)
    for profile in options.profiles:
        check_ranges(original.proto, profile)
    given_freeze = options.freeze if options.frozen is None else options.frozen
    if options.as_is:
        frozen = parse_freeze(given_freeze, original.proto)
        plain = rewrite(original, target, freeze=frozen, passes=(), rules=(), progress=options.progress)
    elif options.frozen is None:
        plain, frozen = rewrite_frozen(
            original, options.freeze, options.inputs, target, options.ranges, options.progress
        )
    else:
        frozen = dict(options.frozen)
        plain = rewrite(original, target, freeze=frozen, profile=options.ranges, progress=options.progress)
    foreign = foreign_plugins(options.plugins, options.target)
    sizes = {} if options.ranges is None else options.ranges.sizes
    warnings = (*infinite_weights(original), *fixed_outputs(original, plain.model, sizes))

    def settled(planned: Plan) -> Plan:
        known = with_libraries(planned) if options.compiled else planned
        return replace(known, warnings=(*known.warnings, *warnings))

    steps_of(options.progress)(f"planning {counted(len(plain.model.proto.graph.node), 'node')}")
    first = Analysis(original, plain, plain, plan(plain, foreign), frozen, plain.model)
    refused = any(record.fatal for record in plain.declined)
    ready = first.convertible or not (options.whole or refused)
    if not options.precision.precision or not ready:
        return replace(first, plan=settled(first.plan))
    from trtsmith.converter.convert.precision import examples, in_precision  # only those who want one pay

    tried = TrialInputs(examples(original, options.inputs, frozen)) if feeds is None else feeds(first)
    reduced = in_precision(plain, options.precision, tried.values, given=given, drawn=tried.drawn)
    return Analysis(original, plain, reduced, settled(plan(reduced, foreign)), frozen, reduced.model)
