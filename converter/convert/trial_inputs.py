"""Chooses the inputs on which float16's range is tried: the user's, a PyTorch module's example, or generated ones."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.options.shape_tensors import value_profile
from trtsmith.converter.base.options.shapes import InputSpec, ShapeRange, graph_inputs, profile_for
from trtsmith.converter.convert.analysis import Analysis, AnalysisOptions, TrialInputs, analyse
from trtsmith.converter.convert.conversion_options import ConvertOptions
from trtsmith.converter.convert.opening import OpenedModel
from trtsmith.converter.rewrite.freeze import shape_inputs
from trtsmith.converter.rewrite.precision.formats import FP16
from trtsmith.converter.rewrite.rewrite import Rewritten
from trtsmith.converter.verify.given import load_inputs


def analyse_opened(opened: OpenedModel, options: ConvertOptions, asked: AnalysisOptions) -> Analysis:
    """Analyses a model for `check` and `rewrite`, with the inputs that `convert` tries a precision on."""
    example = opened.inputs if options.inputs is None else options.inputs

    def feeds(analysis: Analysis) -> TrialInputs:
        return usual_inputs(replace(options, inputs=example), analysis)

    return analyse(opened.model, asked, feeds, given=options.inputs is not None)


def with_example(options: ConvertOptions, opened: OpenedModel) -> ConvertOptions:
    """The options with the shapes, inputs and outputs of a PyTorch module's example, unless the user gives others."""
    shapes = opened.shapes(options.shapes)
    if options.inputs is not None or opened.inputs is None:
        return replace(options, shapes=shapes)
    expected = options.expected
    if expected is None and options.references.whole is None:
        expected = opened.expected
    return replace(options, shapes=shapes, inputs=opened.inputs, expected=expected)


def shape_tensor_values(
    options: ConvertOptions, rewritten: Rewritten, specs: Sequence[InputSpec]
) -> dict[str, ShapeRange]:
    """Values of the shape tensors that one sees without TensorRT, and of those that the user names."""
    tensors = shape_inputs(rewritten.model.proto)
    given = load_inputs(options.inputs, specs) if options.inputs is not None else {}
    return value_profile(specs, tensors, options.values, given)


def usual_inputs(options: ConvertOptions, analysis: Analysis) -> TrialInputs:
    """The user's inputs, or for fp16 generated ones of the usual sizes, as for the comparison; none if sizes are unknown."""
    from trtsmith.converter.convert.precision import examples  # only those who want a precision pay
    from trtsmith.converter.verify.sets import Generation

    if options.inputs is not None or options.precision.format is not FP16:
        return TrialInputs(examples(analysis.original, options.inputs, analysis.frozen))
    specs = [spec for spec in graph_inputs(analysis.original.proto) if spec.name not in analysis.frozen]
    with suppress(UsageError):  # sizes that are not given, or that memory does not hold: nothing is tried
        sizes = profile_for(specs, options.shapes)
        values = shape_tensor_values(options, analysis.plain, specs)
        generation = Generation(analysis.original, specs, sizes, values, analysis.frozen)
        return TrialInputs(generation.at("opt").arrays, generation.drawn)
    return TrialInputs()
