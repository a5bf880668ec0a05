"""Defines the public function `refit` and its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from onnx import ModelProto
from typing_extensions import Unpack

from trtsmith.arguments import logged, onnx_of, stage_options, with_operators
from trtsmith.converter.base.options import keywords
from trtsmith.converter.base.options.declared import with_defaults
from trtsmith.converter.base.options.kinds import Flag, StrPath
from trtsmith.converter.convert import refitting
from trtsmith.converter.convert.refitting import RefitOptions, Refitted
from trtsmith.converter.engine.runtime.run_request import RunningOptions
from trtsmith.converter.model.model_bytes import ModelSource
from trtsmith.options import Operators, Replacing, Telling


class RefittedFile(Replacing, total=False):
    """output"""

    output: Annotated[
        StrPath | None,
        Flag("the engine to write; default: in the place of ENGINE", "OUT", "-o", "--output", common=True),
    ]


REFITTED = (RefittedFile, RunningOptions, Operators, Telling)
"""The options of `trtsmith refit`."""


def refit_of(engine: Path, onnx: ModelSource, given: Any) -> RefitOptions:
    return stage_options(RefitOptions, REFITTED, given, engine=engine, onnx=onnx)


@with_operators(REFITTED)
def refit(
    engine: StrPath, onnx: StrPath | ModelProto | bytes, **options: Unpack[keywords.RefitKeywords]
) -> Refitted:
    """Gives an engine the weights of another ONNX model of the same structure, without a build. Needs a GPU.

    engine:  an engine of `convert` with `refit` or `strip_plan`, with the manifest beside it.
    onnx:    the model. It is rewritten as the engine's was, and weights are matched by name.
    output:  the engine's file; None: the engine itself, which is replaced when the new one is complete.
    force:   whether `output` may replace anything; without it, only an engine of the same model.
    timeout: time limit in seconds.

    Other arguments are those of `convert`. `trtsmith.verify` compares the engine with its new model.

    >>> import trtsmith
    >>> trtsmith.refit("model.plan", "trained.onnx", output="trained.plan").changed  # doctest: +SKIP
    ('conv.weight', 'conv.bias')

    Raises UsageError for an engine that cannot be refitted, and with all weights and nodes that differ; ConversionError and
    InvalidModelError as `convert` does. Nothing is written then.
    """
    given = with_defaults(REFITTED, options)
    return refitting.refit(refit_of(Path(engine), onnx_of(onnx), given), logged(given.progress))
