"""Stage: derives the profiles and the comparison's inputs from the graph in the model's own precision."""

from __future__ import annotations

from collections.abc import Mapping

from trtsmith.converter.base.options.shapes import ShapeRange, Sizes, graph_inputs, profile_for
from trtsmith.converter.base.progress import Progress
from trtsmith.converter.convert.analysis import Analysis, TrialInputs
from trtsmith.converter.convert.conversion_options import ConvertOptions
from trtsmith.converter.convert.quantize.samples import load_samples
from trtsmith.converter.convert.trial_inputs import shape_tensor_values, usual_inputs
from trtsmith.converter.engine.builder.build_request import Profile
from trtsmith.converter.verify.conversion_check import ComparisonRequest, ConversionCheck, prepare
from trtsmith.converter.verify.given import load_inputs


class Preparation:
    """The profile and the comparison, prepared once from the graph in the model's own precision.

    sizes: of inputs, by profile. values: of shape tensors. check: the comparison to make; None for none.
    """

    def __init__(self, options: ConvertOptions, step: Progress) -> None:
        self._options, self._step = options, step
        self._done = False
        self.sizes: tuple[Mapping[str, ShapeRange], ...] = ()
        self.values: Mapping[str, ShapeRange] = {}
        self.check: ConversionCheck | None = None

    def once(self, analysis: Analysis) -> None:
        if self._done:
            return
        self._done = True
        options, original = self._options, analysis.original
        specs = [spec for spec in graph_inputs(original.proto) if spec.name not in analysis.frozen]

        def usual() -> dict[str, Sizes]:
            given = load_inputs(options.inputs, specs) if options.inputs is not None else {}
            return {name: array.shape for name, array in given.items()}

        self.sizes = tuple(
            profile_for(specs, one, usual=usual) for one in (options.shapes, *options.more_shapes)
        )
        self.values = shape_tensor_values(options, analysis.plain, specs)
        if options.verify is not None:
            self._step("preparing inputs for the comparison")
            request = ComparisonRequest(
                options.inputs,
                options.expected,
                options.tolerances,
                "graph" if "strip_plan" in options.settings else options.verify,
                options.references,
                load_samples(options.precision.calibration, specs),
            )
            self.check = prepare(original, specs, self.sizes, self.values, analysis.frozen, request)

    def feeds(self, analysis: Analysis) -> TrialInputs:
        """Inputs of the comparison; the precision phase runs on them, too. Without a comparison, the same inputs."""
        self.once(analysis)
        if self.check is None:
            return usual_inputs(self._options, analysis)
        generation = self.check.source.generation
        return TrialInputs(self.check.feeds, frozenset() if generation is None else generation.drawn)

    def profiles(self, values: Mapping[str, ShapeRange]) -> tuple[Mapping[str, Profile], ...]:
        """The optimization profiles of the engine; () where every size is known. values: of its shape tensors."""
        of_values = {name: Profile(r.min, r.opt, r.max, values=True) for name, r in values.items()}
        profiles = [
            {name: Profile(r.min, r.opt, r.max) for name, r in one.items()} | of_values for one in self.sizes
        ]
        return tuple(profiles) if any(profiles) else ()

    def warnings(self) -> tuple[str, ...]:
        """Warnings of the comparison's inputs."""
        return () if self.check is None else tuple(self.check.source.warnings([self.check.feeds]))
