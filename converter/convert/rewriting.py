"""Rewrites a model file for TensorRT, plain onnxruntime, or TensorRT 8.6 to 10 with V2 plugins."""

from __future__ import annotations

from dataclasses import replace

from trtsmith.converter.convert.analysis import Analysis, analyse
from trtsmith.converter.convert.conversion_options import ConvertOptions, analysis_options
from trtsmith.converter.convert.opening import Progress, open_model
from trtsmith.converter.convert.plugin_v2_graph import for_plugin_v2
from trtsmith.converter.engine.build.flavour import expected_target
from trtsmith.converter.model.errors import ConversionError, UsageError
from trtsmith.converter.model.progress import Steps, progress_reports
from trtsmith.converter.model.save import save_model
from trtsmith.converter.rewrite.rewrite import expand as expanded
from trtsmith.converter.rewrite.target import TENSORRT


def rewrite_model(
    options: ConvertOptions,
    progress: Progress | None = None,
    *,
    expand: bool = False,
    plugin_v2: bool = False,
) -> Analysis:
    """Analyse the model. `graph` of the result is the requested graph, which is also in the output file if one is named.

    expand: custom operators as standard ones, for onnxruntime. plugin_v2: plugin nodes for V2 plugins.
    A graph that TensorRT will refuse is written too: `problems` says why. ConversionError: nodes that a pass knows, and
    refuses to take as they are. UsageError: both forms are asked for.
    """
    if expand and plugin_v2:
        what, expected = "--expand and --plugin-v2 are both given", "one of the two"
        raise UsageError(what, "--expand --plugin-v2", expected, "remove one")
    with progress_reports(progress or _silent) as telling:
        return _rewritten(options, telling, expand, plugin_v2)


def _rewritten(options: ConvertOptions, progress: Steps, expand: bool, plugin_v2: bool) -> Analysis:
    target = TENSORRT if plugin_v2 else expected_target(options.flavour)
    asked = replace(analysis_options(options), target=target, whole=False, compiled=False, progress=progress)
    progress.step("loading the model")
    analysis = analyse(open_model(options.model, progress).model, asked)
    fatal = [record.problem() for record in analysis.rewritten.declined if record.fatal]
    if fatal:
        raise ConversionError(fatal)
    if expand:
        analysis = replace(analysis, graph=expanded(analysis.graph))
    elif plugin_v2:
        analysis = replace(analysis, graph=for_plugin_v2(analysis.graph))
    if options.output is not None:
        progress.step("saving the rewritten graph")
        save_model(analysis.graph, options.output)
    return analysis


def _silent(text: str) -> None:
    pass
