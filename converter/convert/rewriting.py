"""Rewrites a model file for TensorRT, or for others: plain onnxruntime, or TensorRT 8.6 to 10 with V2 plugins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from trtsmith.converter.convert.analysis import Analysis, AnalysisOptions, analyse
from trtsmith.converter.convert.freezing import Freeze
from trtsmith.converter.convert.opening import GivenModel, Progress, open_model
from trtsmith.converter.convert.plugin_v2_graph import for_plugin_v2
from trtsmith.converter.convert.precision_request import PrecisionRequest
from trtsmith.converter.engine.build.flavour import expected_target
from trtsmith.converter.model.arrays import ArraySource
from trtsmith.converter.model.errors import ConversionError, UsageError
from trtsmith.converter.model.save import save_model
from trtsmith.converter.model.shapes import ShapeRange
from trtsmith.converter.model.signs_of_life import Steps, signs_of_life
from trtsmith.converter.rewrite.rewrite import expand
from trtsmith.converter.rewrite.target import TENSORRT
from trtsmith.importers.problem import Problem


@dataclass(frozen=True)
class RewriteOptions:
    """What `trtsmith rewrite` is told. Paths are as the user gave them.

    output: the .onnx file to write; None: write nothing. inputs: example inputs.
    shapes, values: of inputs, for which alone the graph has to hold.
    expand: custom operators as standard ones, for onnxruntime. plugin_v2: plugin nodes for V2 plugins.
    """

    model: GivenModel
    output: Path | None = None
    flavour: str = "auto"
    freeze: Freeze = ()
    inputs: ArraySource | None = None
    precision: PrecisionRequest = field(default_factory=PrecisionRequest)
    expand: bool = False
    plugin_v2: bool = False
    shapes: Mapping[str, ShapeRange] = field(default_factory=dict)
    values: Mapping[str, ShapeRange] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.expand and self.plugin_v2:
            what, expected = "two forms of the graph are asked for", "one of the two"
            raise UsageError(Problem(what, "--expand --plugin-v2", expected, "remove one"))


def rewrite_model(options: RewriteOptions, progress: Progress | None = None) -> Analysis:
    """The analysis of the model; `graph` is what was asked for, and is in the file if one was named.

    A graph that TensorRT will refuse is written too: `problems` says why. ConversionError: nodes that a pass knows, and
    refuses to take as they are.
    """
    with signs_of_life(progress or _silent) as telling:
        return _rewritten(options, telling)


def _rewritten(options: RewriteOptions, progress: Steps) -> Analysis:
    target = TENSORRT if options.plugin_v2 else expected_target(options.flavour)
    asked = AnalysisOptions(
        target,
        options.freeze,
        None,
        options.inputs,
        (),
        options.precision,
        whole=False,
        compiled=False,
        profiles=(options.shapes,),
        values=(options.values,),
    )
    progress.step("loading the model")
    analysis = analyse(open_model(options.model, progress).model, replace(asked, progress=progress))
    fatal = [record.problem() for record in analysis.rewritten.declined if record.fatal]
    if fatal:
        raise ConversionError(fatal)
    if options.expand:
        analysis = replace(analysis, graph=expand(analysis.graph))
    elif options.plugin_v2:
        analysis = replace(analysis, graph=for_plugin_v2(analysis.graph))
    if options.output is not None:
        progress.step("saving the rewritten graph")
        save_model(analysis.graph, options.output)
    return analysis


def _silent(text: str) -> None:
    pass
