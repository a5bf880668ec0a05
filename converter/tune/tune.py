"""Stage: searches the fastest engine whose error stays within a bound, and writes it with its recipe."""

from __future__ import annotations

import time
from argparse import ArgumentTypeError
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

from trtsmith.converter.base.arrays import ArraySource
from trtsmith.converter.base.errors import ConversionError, TrtsmithError, UsageError
from trtsmith.converter.base.option_values import check_values, is_seconds
from trtsmith.converter.base.options.kinds import KINDS, SECONDS, WORDS, Flag, precision_meant
from trtsmith.converter.base.options.shapes import graph_inputs
from trtsmith.converter.base.output_file import write_text
from trtsmith.converter.base.process.scratch_folder import ScratchFolder
from trtsmith.converter.base.progress import Progress, steps_of
from trtsmith.converter.convert.analysis import Analysis, analyse
from trtsmith.converter.convert.conversion import Conversion
from trtsmith.converter.convert.conversion_options import ConvertOptions, analysis_options
from trtsmith.converter.convert.destination import destination_of
from trtsmith.converter.convert.facts import still_read
from trtsmith.converter.convert.foreign_nodes import foreign_plugins
from trtsmith.converter.convert.opening import open_model, typed
from trtsmith.converter.convert.pipeline import convert
from trtsmith.converter.convert.precision_request import QUANTIZED, PrecisionRequest
from trtsmith.converter.convert.preparation import Preparation
from trtsmith.converter.convert.quantize.samples import load_samples
from trtsmith.converter.convert.recipe import SUFFIX, Choices, Recipe
from trtsmith.converter.convert.trial_inputs import with_example
from trtsmith.converter.engine.builder.gpu import find_gpu
from trtsmith.converter.model.fingerprint import fingerprint
from trtsmith.converter.model.model import Model
from trtsmith.converter.tune.choices import PRECISIONS, ReducedNetwork, applied, bases
from trtsmith.converter.tune.lab import EngineLab, Ground
from trtsmith.converter.tune.search import EngineTrial, Move, RecipeSearch, Repair
from trtsmith.converter.verify.baseline import Baseline, Original
from trtsmith.converter.verify.sets import InputSet
from trtsmith.converter.verify.tolerances import TOLERANCE_BY_OUTPUT

MOST_SETS = 8
"""Sets of samples by which the search judges, and others by which the best engine is judged after it."""


def _precisions(given: Any, name: str) -> tuple[str, ...]:
    """UsageError for what is no precision."""
    names = tuple(WORDS.read(given, name))
    for one in names:
        check_values((f"--{name}", one, tuple(PRECISIONS)))
    return names


def _types_meant(value: Any) -> str:
    """The precisions of one type of PyTorch or numpy, or of several."""
    several = value if isinstance(value, (list, tuple)) else [value]
    named = [precision_meant(one, tuple(PRECISIONS)) for one in several]
    return f"[{', '.join(named)}]" if all(named) else ""


def _minutes(text: str) -> float:
    with suppress(ValueError):
        if is_seconds(value := float(text)):
            return value
    raise ArgumentTypeError(f"{text!r} is not a positive number of minutes")


_MINUTES = replace(SECONDS, flag={"type": _minutes})


@dataclass(frozen=True, kw_only=True)
class TuningOptions:
    """The options of the search: bound, time, samples, precisions."""

    TITLE: ClassVar[str] = "search"

    max_error: Annotated[
        Mapping[str, float],
        Flag(
            "the largest error of an output, ||y - x|| / ||x||, such as 0.005; default: 1.1 times that of "
            "`convert --precision fp16`",
            "[OUT:]X",
            common=True,
            kind=TOLERANCE_BY_OUTPUT,
        ),
    ] = field(default_factory=dict)
    minutes: Annotated[float, Flag("how long to search (5)", "N", common=True, kind=_MINUTES)] = 5.0
    samples: Annotated[
        tuple[ArraySource, ...],
        Flag(
            "more sets of inputs, along the first axis: half of them judge engines in the search, the others the best one "
            "after it; int8 and fp8 are calibrated with all; may be repeated",
            "NPZ",
            common=True,
            kind=KINDS["Samples"],
        ),
    ] = ()
    precisions: Annotated[
        tuple[str, ...],
        Flag(
            f"what to choose from: {', '.join(PRECISIONS)}; default: fp16, fp32 and bf16, with --samples also int8 and fp8",
            "NAME,...",
            kind=replace(WORDS, read=_precisions, example='["fp16", "fp32"]', meant=_types_meant),
        ),
    ] = ()

    def __post_init__(self) -> None:
        if lacking := [name for name in self.precisions if name in QUANTIZED and not self.samples]:
            what, where = f"{', '.join(lacking)} is calibrated, and there are no samples", "--precisions"
            fix = f"add --samples, or leave {', '.join(lacking)} out"
            raise UsageError(
                what, f"{where} {','.join(self.precisions)}", "--samples FILE.npz beside it", fix
            )

    def check_outputs(self, outputs: Sequence[str]) -> None:
        """Raises UsageError for a bound of an output that the model lacks."""
        if unknown := [name for name in self.max_error if name and name not in outputs]:
            what, expected = (
                f"the model has no output {unknown[0]!r}",
                f"one of: {', '.join(map(repr, outputs))}",
            )
            raise UsageError(what, f"--max-error {unknown[0]}:...", expected, "correct the name")


@dataclass(frozen=True)
class TuneOptions:
    """The options of `trtsmith tune`. convert: of all engines, but for the choices of the search."""

    convert: ConvertOptions
    search: TuningOptions = field(default_factory=TuningOptions)

    def names(self) -> tuple[str, ...]:
        """The precisions to choose from."""
        if self.search.precisions:
            return self.search.precisions
        return ("fp16", "fp32", "bf16", *(QUANTIZED if self.search.samples else ()))


@dataclass(frozen=True)
class Tuned:
    """The result of a search.

    best, default: the best engine's trial, and that of `convert --precision fp16`, or of the first precision; None where
    none was within the bound, or made. trials: all. bounds: by output. recipe: of the best. conversion: the engine that was
    written, which was made again from the recipe. recipe_file: None where nothing was written. seconds: of the search.
    sets, unseen: how many sets of inputs judged in the search, and after it.
    """

    best: EngineTrial[Choices] | None
    default: EngineTrial[Choices] | None
    trials: tuple[EngineTrial[Choices], ...]
    shown: tuple[EngineTrial[Choices], ...]
    bounds: Mapping[str, float]
    recipe: Recipe | None
    conversion: Conversion | None
    recipe_file: Path | None
    seconds: float
    sets: int
    unseen: int

    def to_json(self) -> dict[str, Any]:
        return {
            "format": 1,
            "best": None if self.best is None else _row(self.best),
            "default": None if self.default is None else _row(self.default),
            "bounds": dict(self.bounds),
            "trials": [_row(one) for one in self.trials],
            "recipe": None if self.recipe is None else self.recipe.to_json(),
            "seconds": round(self.seconds, 1),
            "sets": self.sets,
            "unseen": self.unseen,
        }


def _row(trial: EngineTrial[Choices]) -> dict[str, Any]:
    made = (
        {}
        if trial.failed and trial.ms == float("inf")
        else {
            "ms": trial.ms,
            "error": trial.error if trial.error < float("inf") else None,
            "share_of_bound": trial.used if trial.used < float("inf") else None,
            "bytes": trial.size,
            "device_memory": trial.memory,
        }
    )
    return {"flags": trial.recipe.flags(), "failed": trial.failed, **made}


@dataclass(frozen=True)
class _Prepared:
    """The analysed model and its inputs, before an engine is built."""

    options: TuneOptions
    analysis: Analysis
    as_is: Analysis | None
    prepared: Preparation
    reduced: Mapping[str, ReducedNetwork]

    @property
    def original(self) -> Model:
        return self.analysis.original

    def first(self) -> dict[Choices, str]:
        return bases(self.options.names(), as_is=self.as_is is not None)

    def explicit(self, choices: Choices) -> Choices:
        """The same engine, with all nodes listed that stay in float32."""
        known = self.reduced.get(choices.precision)
        return choices if known is None else known.explicit(choices)

    def moves(self, choices: Choices) -> Sequence[Move[Choices]]:
        known = self.reduced.get(choices.precision)
        return () if known is None else known.moves(choices)

    def repair(self, choices: Choices) -> Repair[Choices] | None:
        known = self.reduced.get(choices.precision)
        return None if known is None else known.repair(choices)


def prepared(options: TuneOptions, progress: Progress) -> _Prepared:
    """Reads and analyses the model, its inputs and samples. TrtsmithError where it cannot be converted at all."""
    step = steps_of(progress)
    step("loading the model")
    opened = open_model(options.convert.model, step, force=options.convert.force)
    asked = with_example(options.convert, opened)
    options, original = replace(options, convert=asked), opened.model
    options.search.check_outputs([value.name for value in original.proto.graph.output])
    plain = replace(analysis_options(asked), precision=PrecisionRequest(), progress=step)
    analysis = analyse(original, plain).needed()
    ready = Preparation(replace(asked, verify="graph"), step)
    ready.once(analysis)
    assert ready.check is not None
    reduced = {}
    for name in (name for name in options.names() if name in ("fp16", "bf16")):
        step(f"deciding which nodes {name} keeps in float32")
        with suppress(ConversionError):
            reduced[name] = ReducedNetwork.of(
                analysis, name, ready.check.feeds, given=asked.inputs is not None
            )
    own = None
    with suppress(TrtsmithError):
        found = analyse(original, replace(plain, as_is=True))
        own = found if found.convertible else None
    return _Prepared(options, analysis, own, ready, reduced)


def tune(options: TuneOptions, progress: Progress) -> Tuned:
    """Searches, and writes the best engine with its recipe. Ctrl-C ends the search with the best so far.

    UsageError where there is no GPU; ConversionError where no engine is within the bound.
    """
    gpu = find_gpu()
    if gpu is None:
        what = "engines are compared by their speed, and there is no NVIDIA GPU here"
        command = f"trtsmith tune {typed(options.convert.model)} --plan"
        fix = f"run it where the GPU is; `{command}` shows here what would be tried"
        raise UsageError(what, "tune", "a machine with an NVIDIA GPU and its driver", fix)
    destination_of(options.convert).check()
    began = time.monotonic()
    known = prepared(options, progress)
    options = known.options
    step = steps_of(progress)
    ground = _ground(options, known, step)
    first = list(known.first())
    with ScratchFolder("tune") as folder:
        until = began + 60 * options.search.minutes
        lab = EngineLab(ground, options.search.max_error, until, Path(folder), step)
        search: RecipeSearch[Choices] = RecipeSearch(lab, progress)
        try:
            search.run(first, known.moves, known.repair)
        except KeyboardInterrupt:
            progress("stopped: what follows is the best so far")
        found = search.found
    default = next((t for t in found.trials if t.recipe == first[0] and not t.failed), None)
    seconds = time.monotonic() - began
    if found.best is None:
        raise _nothing(found.trials, lab.bounds, typed(options.convert.model))
    recipe = Recipe(
        known.explicit(found.best.recipe),
        fingerprint(known.original),
        {
            **_row(found.best),
            "gpu": gpu.name,
            "bounds": lab.bounds,
            "default_ms": None if default is None else default.ms,
        },
    )
    conversion, file = _written_engine(options, recipe, progress)
    return Tuned(
        found.best,
        default,
        tuple(found.trials),
        tuple(found.fastest()),
        lab.bounds,
        recipe,
        conversion,
        file,
        seconds,
        len(ground.seen.sets),
        0 if ground.unseen is None else len(ground.unseen.sets),
    )


def _ground(options: TuneOptions, known: _Prepared, step: Progress) -> Ground:
    """Reads the samples, and runs the original model on the sets of inputs that judge the engines."""
    check, asked = known.prepared.check, options.convert
    assert check is not None
    specs = [spec for spec in graph_inputs(known.original.proto) if spec.name not in known.analysis.frozen]
    samples = [{**one, **known.analysis.frozen} for one in load_samples(options.search.samples, specs)]
    mine, others = samples[0::2][: MOST_SETS - 1], samples[1::2][:MOST_SETS]
    original = Original(known.original, check.references, step)
    seen = Baseline(
        original,
        [InputSet("", check.feeds), *(InputSet(f"sample {i}", one) for i, one in enumerate(mine))],
        check.source,
        expected=None if check.expected is None or mine else [check.expected],
        progress=step,
    )
    unseen = Baseline(original, [InputSet(f"other {i}", one) for i, one in enumerate(others)], progress=step)
    step("running the original model in onnxruntime")
    _ = seen.wanted, unseen.wanted
    original.release()
    return Ground(
        asked,
        {False: known.analysis} | ({} if known.as_is is None else {True: known.as_is}),
        known.prepared.profiles(still_read(known.prepared.values, known.original, known.analysis.rewritten)),
        check.feeds,
        seen,
        unseen if others else None,
        foreign_plugins(asked.plugins, analysis_options(asked).target),
        known.explicit,
        options.search.samples,
        given=asked.inputs is not None,
    )


def _written_engine(
    options: TuneOptions, recipe: Recipe, progress: Progress
) -> tuple[Conversion, Path | None]:
    """The engine, made again as `convert --recipe` makes it, and the recipe beside it."""
    again = applied(recipe.choices, options.convert, options.search.samples)
    conversion = convert(replace(again, verify=None, expected=None, recipe=recipe), progress)
    if again.output is None:
        return conversion, None
    file = again.output.with_suffix(SUFFIX)
    write_text(file, recipe.text(), "--output", "the recipe")
    return conversion, file


def _nothing(
    trials: Sequence[EngineTrial[Choices]], bounds: Mapping[str, float], model: str
) -> ConversionError:
    """No engine is within the bound. model: as in a command."""
    made = [t for t in trials if not t.failed]
    if not made:
        why = trials[0].failed if trials else "no time was left to build one"
        return ConversionError(
            f"no engine could be built: {why}",
            "tune",
            "an engine of the model",
            f"trtsmith convert {model}",
        )
    best = min(made, key=lambda t: t.error)
    what = f"no engine is within the bound: the smallest error is {best.error:.2g} ({best.recipe.flags()})"
    told = ", ".join(f"{name or 'others'} {bound:.2g}" for name, bound in bounds.items())
    return ConversionError(
        what,
        f"--max-error: {told}",
        "a bound that float32 in TF32 keeps",
        f"--max-error {2 * best.error:.1g}",
    )
