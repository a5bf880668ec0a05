"""Builds engines by their choices, several at once, and measures time and error on this machine's GPU."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from threading import Lock

import numpy as np

from trtsmith.converter.base.arrays import ArraySource
from trtsmith.converter.base.errors import TrtsmithError
from trtsmith.converter.base.progress import Progress, silent
from trtsmith.converter.convert.analysis import Analysis
from trtsmith.converter.convert.conversion_options import ConvertOptions
from trtsmith.converter.convert.foreign_nodes import ForeignPlugins
from trtsmith.converter.convert.pipeline import build_request, run_request
from trtsmith.converter.convert.plan import needed_libraries, plan, with_libraries
from trtsmith.converter.convert.precision import in_precision
from trtsmith.converter.convert.recipe import Choices
from trtsmith.converter.convert.workarounds.building import build_mended
from trtsmith.converter.convert.workarounds.refusals import Refusals
from trtsmith.converter.engine.builder.build_request import Profile
from trtsmith.converter.engine.runtime.exchange import read_arrays, write_arrays
from trtsmith.converter.engine.runtime.run_in_child import answer_of, checked
from trtsmith.converter.engine.runtime.run_request import RunRequest
from trtsmith.converter.tune.choices import applied
from trtsmith.converter.tune.engine_pair import ROUNDS, PairRequest, PairTimes
from trtsmith.converter.tune.search import WIDTH, EngineTrial, Ratio
from trtsmith.converter.verify.baseline import Baseline
from trtsmith.converter.verify.compare import Comparison
from trtsmith.converter.verify.meaning.compared_outputs import RoundedRuns, compared
from trtsmith.importers.counted import counted
from trtsmith.importers.opdef import Arrays

LIKE_DEFAULT = 1.1
"""The bound over the error of the first engine, where none is given: the same digits may be rounded otherwise."""

WITHOUT_DEFAULT = 1e-2
"""The bound where the first engine has no finite error."""

WORKER = "trtsmith.converter.tune.pair_worker"

Errors = Mapping[str, float]
"""||y - x|| / ||x|| by output, the worst of all sets; infinite for outputs that are no result."""


def errors_of(baseline: Baseline, outputs: Sequence[Arrays]) -> dict[str, float]:
    """The errors of outputs, selections compared by their meaning. Rounding excuses nothing: the bound is the user's."""
    worst: dict[str, float] = {}
    for wanted, actual, one in zip(baseline.wanted, outputs, baseline.sets, strict=True):
        _, found = compared(baseline.model, wanted, actual, RoundedRuns("fp32"), None, one.at)
        for comparison in found:
            worst[comparison.output] = max(worst.get(comparison.output, 0.0), _error(comparison))
    return worst


def _error(one: Comparison) -> float:
    if one.agrees or (one.relative and math.isfinite(one.relative)):
        return one.relative
    return math.inf  # of another shape, or not finite where the original is


@dataclass(frozen=True)
class Ground:
    """The model, inputs and options that all engines of a search share.

    graphs: the model analysed in its own precision, rewritten and (as_is) not. profiles: as of the build.
    feeds: inputs of the original, with which the precision phase looks for values beyond a type's range. given: whether they
        are the user's.
    seen, unseen: what the search judges by, and what the best engine is judged by after it.
    foreign: plugins of the user's libraries and of TensorRT. samples: to calibrate 8 bits with.
    explicit: the choices with all nodes that stay in float32.
    """

    options: ConvertOptions
    graphs: Mapping[bool, Analysis]
    profiles: tuple[Mapping[str, Profile], ...]
    feeds: Arrays | None
    seen: Baseline
    unseen: Baseline | None
    foreign: ForeignPlugins
    explicit: Callable[[Choices], Choices]
    samples: tuple[ArraySource, ...] = ()
    given: bool = True


@dataclass(frozen=True)
class _BuiltEngine:
    run: RunRequest
    size: int


class EngineLab:
    """A Lab of engines (converter/tune/search.py).

    bounds: the largest error of each output, "" for all others; an output without one has its bound by the error of the
    first engine. until: time.monotonic() at which the search ends.
    """

    def __init__(self, ground: Ground, bounds: Errors, until: float, folder: Path, tell: Progress) -> None:
        self.bounds = dict(bounds)
        self._ground, self._until, self._folder, self._tell = ground, until, folder, tell
        self._width = max(2, min(WIDTH, (os.cpu_count() or 2) // 2))
        self._engines: dict[Choices, _BuiltEngine] = {}
        self._places: list[Path] = []
        self._elsewhere: dict[Choices, float] = {}
        self._lock = Lock()
        self._inputs = {"seen": _written(ground.seen, folder / "seen")}
        if ground.unseen is not None:
            self._inputs["unseen"] = _written(ground.unseen, folder / "unseen")

    def is_over(self) -> bool:
        return time.monotonic() >= self._until

    def measure(self, recipes: Sequence[Choices]) -> list[EngineTrial[Choices]]:
        self._tell(f"building {counted(len(recipes), 'engine')}")
        with ThreadPoolExecutor(self._width) as pool:
            built = [pool.submit(copy_context().run, self._built, one) for one in recipes]
            try:
                made = [one.result() for one in built]
            except BaseException:
                for one in built:
                    one.cancel()
                raise
        return [self._measured(one, engine) for one, engine in zip(recipes, made, strict=True)]

    def ratio(self, recipe: Choices, other: Choices) -> Ratio:
        runs = self._engines[recipe].run, self._engines[other].run
        try:
            return self._asked(PairRequest(runs, self._inputs["seen"][:1])).ratio()
        except TrtsmithError:
            return Ratio(math.inf, math.inf, math.inf)

    def used_elsewhere(self, recipe: Choices) -> float:
        if self._ground.unseen is None:
            return 0.0
        if recipe not in self._elsewhere:
            try:
                outputs = self._outputs(self._engines[recipe], "unseen", 0)[0]
                self._elsewhere[recipe] = self._used(errors_of(self._ground.unseen, outputs))
            except TrtsmithError:
                self._elsewhere[recipe] = math.inf
        return self._elsewhere[recipe]

    def _used(self, errors: Errors) -> float:
        """The worst share of a bound. What may not differ at all is within it or far beyond."""
        shares = []
        for output, error in errors.items():
            bound = self.bounds.get(output, self.bounds.get("", WITHOUT_DEFAULT))
            shares.append(error / bound if bound else (0.0 if error == 0 else math.inf))
        return max(shares, default=0.0)

    def _built(self, choices: Choices) -> _BuiltEngine | str:
        """The engine, or why there is none."""
        ground = self._ground
        analysis = ground.graphs.get(choices.as_is)
        if analysis is None:
            return "TensorRT does not import the model by itself"
        try:
            with self._lock:  # rewriting is Python's own work
                # what is decided by a run was decided before
                options = applied(ground.explicit(choices), ground.options, ground.samples)
                rewritten = analysis.plain
                if choices.precision:
                    rewritten = in_precision(rewritten, options.precision, ground.feeds, given=ground.given)
                planned = with_libraries(plan(rewritten, ground.foreign))
                loaded = needed_libraries(planned, options.plugins)
                place = self._folder / f"engine-{len(self._places)}"
                place.mkdir()
                self._places.append(place)
            request = build_request(options, planned, ground.profiles, place, loaded)
            done = build_mended(rewritten.model, request, Refusals(reduce=False), silent)
        except TrtsmithError as error:
            return error.problems[0].what
        run = replace(run_request(options, rewritten, done.built, loaded), runtime_cache=place / "kernels")
        return _BuiltEngine(run, done.built.size)

    def _measured(self, choices: Choices, engine: _BuiltEngine | str) -> EngineTrial[Choices]:
        if isinstance(engine, str):
            return EngineTrial(choices, engine)
        self._tell(f"timing: {choices.flags()}")
        try:
            outputs, times = self._outputs(engine, "seen", ROUNDS)
            errors = errors_of(self._ground.seen, outputs)
        except TrtsmithError as error:
            return EngineTrial(choices, error.problems[0].what)
        if not self._engines and "" not in self.bounds:
            own = {name: LIKE_DEFAULT * error for name, error in errors.items() if math.isfinite(error)}
            self.bounds = own | self.bounds
        self._engines[choices] = engine
        return EngineTrial(
            choices,
            used=self._used(errors),
            ms=float(median(times.ms[0])),
            error=max(errors.values(), default=0.0),
            size=engine.size,
            memory=times.memory[0],
        )

    def _outputs(self, engine: _BuiltEngine, which: str, rounds: int) -> tuple[list[Arrays], PairTimes]:
        inputs = self._inputs[which]
        places = tuple(engine.run.engine_path.parent / f"{which}-{i}" for i in range(len(inputs)))
        times = self._asked(PairRequest((engine.run,), inputs, places, rounds))
        return [dict(read_arrays(place)) for place in places], times

    def _asked(self, request: PairRequest) -> PairTimes:
        runs = tuple(map(checked, request.runs))
        return PairTimes.from_json(answer_of(WORKER, replace(request, runs=runs), runs[0], None))


def _written(baseline: Baseline, folder: Path) -> tuple[Path, ...]:
    """The sets of inputs, a folder of arrays each."""
    places = tuple(folder.with_name(f"{folder.name}-{number}") for number in range(len(baseline.sets)))
    for place, one in zip(places, baseline.sets, strict=True):
        write_arrays(place, {name: np.asarray(array) for name, array in one.feeds.items()})
    return places
