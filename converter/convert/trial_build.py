"""Checks a model: how every node reaches TensorRT and, where that is asked for, whether TensorRT builds the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from trtsmith.converter.convert.analysis import Analysis, AnalysisOptions, analyse
from trtsmith.converter.convert.mending.refusals import Refusals
from trtsmith.converter.convert.opening import GivenModel, open_model
from trtsmith.converter.model.errors import ConversionError, UsageError
from trtsmith.converter.model.shapes import ShapeRange
from trtsmith.converter.model.signs_of_life import Progress, steps_of
from trtsmith.importers.problem import Problem

_LOOKED_INTO = Refusals()


@dataclass(frozen=True)
class TrialBuild:
    """A build that is tried, whose engine nobody wants. asked: whether it is; the rest is as in ConvertOptions."""

    asked: bool = False
    flavour: str = "auto"
    targets: tuple[str, ...] = ()
    optimization_level: int | None = None
    timeout_s: float | None = None
    refusals: Refusals = _LOOKED_INTO
    verbose: bool = False

    def __post_init__(self) -> None:
        given = {
            "--target": self.targets,
            "--optimization-level": self.optimization_level is not None,
            "--timeout": self.timeout_s,
            "--refused": self.refusals.file,
            "--mend-with": self.refusals.allowed,
        }
        wrong = [flag for flag, value in given.items() if value]
        if wrong and not self.asked:
            what = f"{wrong[0]} is for a build, and none was asked for"
            raise UsageError(Problem(what, wrong[0], "check with --build", "add --build, or remove the flag"))


def check_model(
    model: GivenModel, options: AnalysisOptions, trial: TrialBuild, progress: Progress
) -> Analysis:
    """Analyse the model, and build it if that was asked for and every node has a route.

    That it cannot be converted is a result and no error. Raises InvalidModelError and UsageError.
    """
    steps_of(progress)("loading the model")
    analysis = analyse(open_model(model, progress).model, replace(options, progress=progress))
    if not trial.asked or not analysis.convertible:
        return analysis
    from trtsmith.converter.convert.pipeline import (  # only those who build wait for it
        ConvertOptions,
        convert,
    )

    asked = ConvertOptions(
        model=model,
        output=None,
        shapes=_only(options.profiles),
        values=_only(options.values),
        freeze=options.freeze,
        targets=trial.targets,
        flavour=trial.flavour,
        plugins=options.plugins,
        prefer_stock=bool(options.target.stock),
        inputs=options.inputs,
        verify=None,
        precision=options.precision,
        optimization_level=trial.optimization_level,
        timeout_s=trial.timeout_s,
        verbose=trial.verbose,
        refusals=trial.refusals,
        keep=False,
    )
    try:
        done = convert(asked, progress)
    except ConversionError as error:
        return replace(analysis, refusal=error.problems)
    return replace(analysis, built=done.built, mended=done.mended)


def _only(profiles: Sequence[Mapping[str, ShapeRange]]) -> dict[str, ShapeRange]:
    """The one profile that an engine is built with."""
    return dict(profiles[0]) if profiles else {}
