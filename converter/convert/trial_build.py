"""Checks a model: how every node reaches TensorRT and, with --build, whether TensorRT builds the graph."""

from __future__ import annotations

from dataclasses import replace

from trtsmith.converter.base.errors import ConversionError
from trtsmith.converter.base.progress import Progress, steps_of
from trtsmith.converter.convert.analysis import Analysis
from trtsmith.converter.convert.conversion_options import ConvertOptions, analysis_options
from trtsmith.converter.convert.opening import open_model
from trtsmith.converter.convert.trial_inputs import analyse_opened


def check_model(options: ConvertOptions, progress: Progress, *, build: bool) -> Analysis:
    """Analyses the model, and builds it on request if every node has a route. The options must not ask for a verdict.

    That it cannot be converted is a result and no error. Raises InvalidModelError and UsageError.
    """
    steps_of(progress)("loading the model")
    opened = open_model(options.model, progress, force=options.force)
    analysis = analyse_opened(opened, options, replace(analysis_options(options), progress=progress))
    if not build or not analysis.convertible:
        return analysis
    from trtsmith.converter.convert.pipeline import convert  # only those who build wait for it

    try:
        done = convert(options, progress)
    except ConversionError as error:
        return replace(analysis, refusal=error.problems)
    return replace(analysis, built=done.built, mended=done.mended)
