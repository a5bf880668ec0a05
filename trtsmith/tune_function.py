"""The public function `tune` and its options."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from typing_extensions import Unpack

from trtsmith import report_files
from trtsmith.arguments import Example, ModelLike, logged, model_of, output_of, stage_options, with_operators
from trtsmith.convert_function import CONVERSION, EngineFile, conversion_of
from trtsmith.converter.base.options import keywords
from trtsmith.converter.base.options.declared import only, with_defaults
from trtsmith.converter.base.options.kinds import Flag, StrPath, path_of
from trtsmith.converter.convert.conversion_options import PluginOptions
from trtsmith.converter.convert.freezing import FreezingOptions
from trtsmith.converter.convert.opening import GivenModel
from trtsmith.converter.engine.builder.build_request import BuilderOptions
from trtsmith.converter.tune import tune as stage
from trtsmith.converter.tune.tune import Tuned, TuneOptions, TuningOptions
from trtsmith.converter.verify.references import ExpectationOptions
from trtsmith.options import Operators, Replacing, Shapes, Telling, Torch


class TunedFiles(Replacing, total=False):
    """output"""

    html: Annotated[
        StrPath | None,
        Flag("a page with the latency and error of every engine that was tried", "FILE", common=True),
    ]


TUNING = (
    *(Torch, Shapes, FreezingOptions, TuningOptions),
    only(BuilderOptions, "engine", "flavour", "embed_plugins", "workspace", "timing_cache", "timeout"),
    *(PluginOptions, ExpectationOptions, EngineFile, TunedFiles, Operators, Telling),
)
"""The options of `trtsmith tune`."""


def tuning_of(model: GivenModel, output: Path | None, given: Any) -> TuneOptions:
    asked = conversion_of(model, output, with_defaults(CONVERSION, vars(given)))
    return TuneOptions(asked, stage_options(TuningOptions, TUNING, given))


@with_operators(TUNING)
def tune(
    model: ModelLike,
    args: Example = None,
    kwargs: Mapping[str, Any] | None = None,
    **options: Unpack[keywords.TuneKeywords],
) -> Tuned:
    """Searches the fastest engine whose error stays within a bound, by building and timing engines on this machine's GPU.

    max_error:  the largest ||y - x|| / ||x|| of an output against the original, or by output; None: 1.1 times the error of
        the engine of `convert(..., precision="fp16")`.
    minutes:    how long to search.
    samples:    more sets of inputs, along the first axis: half of them judge engines in the search, the others the best one
        after it. int8 and fp8 are calibrated with all.
    precisions: what to choose from; (): "fp16", "fp32" and "bf16", with samples also "int8" and "fp8".
    output:     the engine; beside it NAME.recipe.json, which `convert(..., recipe=...)` applies on any machine; None: the
        engine's bytes are in `conversion.engine`.
    html:       a file for a page with the latency and error of every engine that was tried.

    Other arguments are those of `convert`. The result is never slower than the engine of "fp16", nor than that of TensorRT's
    own import where that is within the bound. `plan` is of the terminal alone: `trtsmith tune MODEL --plan` shows, without a
    GPU, what would be tried.

    >>> import trtsmith
    >>> tuned = trtsmith.tune("model.onnx", "model.plan", inputs="samples.npz", max_error=0.005)  # doctest: +SKIP
    >>> tuned.best.ms, tuned.best.error, tuned.recipe.choices.flags()  # doctest: +SKIP
    (0.311, 0.0031, '--precision fp16 --keep-fp32 /head/Softmax --keep-only')

    Raises UsageError without a GPU; ConversionError if no engine is within the bound.
    """
    given = with_defaults(TUNING, options)
    asked = tuning_of(model_of(model, args, kwargs, given), output_of(given.output, args), given)
    return report_files.tuning(path_of(given.html), asked, lambda: stage.tune(asked, logged(given.progress)))
