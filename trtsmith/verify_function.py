"""Defines the public function `verify` and its options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from onnx import ModelProto
from typing_extensions import Unpack

from trtsmith import report_files
from trtsmith.arguments import logged, onnx_of, stage_options, with_operators
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.options import keywords
from trtsmith.converter.base.options.declared import only, with_defaults
from trtsmith.converter.base.options.kinds import (
    StrPath,
    path_of,
)
from trtsmith.converter.engine.runtime.run_request import RunningOptions
from trtsmith.converter.model.model_bytes import ModelSource
from trtsmith.converter.verify.references import ExpectationOptions
from trtsmith.converter.verify.tolerances import Tolerances
from trtsmith.converter.verify.verdict import Verdict
from trtsmith.converter.verify.verify_bundle import (
    PolygraphyFiles,
    VerifyInputs,
    VerifyOptions,
    verify_bundle,
)
from trtsmith.options import Operators, Page, Telling, Torch

VERIFICATION = (
    *(
        only(Torch, "", "data_folder"),
        VerifyInputs,
        only(ExpectationOptions, "inputs and outputs", "expected", "reference"),
    ),
    *(PolygraphyFiles, only(Tolerances, "verdict", "rtol", "atol", "not_compared", "compare")),
    *(only(VerifyOptions, "verdict", "precision"), RunningOptions, Page, Operators, Telling),
)
"""The options of `trtsmith verify`."""


def verification_of(model: ModelSource, engine: Path, given: Any) -> VerifyOptions:
    """UsageError for an engine and a model in each other's place."""
    if isinstance(model, Path) and engine.suffix == ".onnx" and model.suffix != ".onnx":
        what, expected = "the engine and the model are swapped", "the model first, then the engine"
        raise UsageError(what, f"{model} {engine}", expected, f"write {engine} before {model}")
    return stage_options(
        VerifyOptions,
        VERIFICATION,
        given,
        model=model,
        engine=engine,
        tolerances=stage_options(Tolerances, VERIFICATION, given),
    )


@with_operators(VERIFICATION)
def verify(
    model: StrPath | bytes | ModelProto, engine: StrPath, **options: Unpack[keywords.VerifyKeywords]
) -> Verdict:
    """Compares an engine's outputs, on this machine's GPU, with those of the original model in onnxruntime.

    model:     the ONNX model from which the engine was built: a path, an onnx.ModelProto or the bytes of one.
    data_folder: folder of the external data of a ModelProto or bytes.
    engine:    the engine, with its manifest beside it.
    inputs:    an .npz file, or arrays by name; None: generated for the smallest, usual and largest sizes of the engine's
        profile.
    expected:  an .npz file, or arrays by name, with the expected outputs for `inputs`; None: those of the original model in
        onnxruntime.
    reference: a function that computes the model, or functions by operator, as in `convert`.
    load_inputs, load_outputs: the files of `polygraphy run --save-inputs` and `--save-outputs`: JSON files, or folders
        with a file for each iteration; the outputs of one runner.
    save_inputs, save_outputs: files, or folders if there is no suffix, for the inputs and the engine's outputs in that form.
    shapes:    sizes of generated inputs, by name: one shape, or three.
    rtol, atol: a tolerance for all outputs, or tolerances by output name.
    not_compared: names of outputs that may stay uncompared, if they cannot be compared.
    compare:      by output, how to compare it if the graph does not show it: "rows", "detections", "ranking", "classes",
        "set", or "values" for element by element.
    precision: the engine's precision, which sets the default tolerance: "fp32", "tf32", "fp16", "fp16-sums" (which also sums
        products in float16), "bf16", "int8" or "fp8"; "": the manifest's, with tf32 for fp32.
    plugins:   libraries that the manifest does not name. They run code of their own.
    flavour:   "tensorrt", "tensorrt_rtx", or "auto": that of the manifest.
    timeout:   time limit of the engine's run, in seconds.
    force:     whether existing files are replaced, whatever they are, as in `convert`.
    html:      a file for a page with the verdict and the network.
    ops, plugins_from_packages: as in `convert`.
    verbose:   whether `progress` gets TensorRT's own messages too.
    progress:  a function that gets a line of text for each step.

    >>> import trtsmith
    >>> verdict = trtsmith.verify("model.onnx", "model.plan")  # doctest: +SKIP
    >>> verdict.passed, verdict.reason  # doctest: +SKIP
    (True, 'largest relative error 1.3e-07')

    Raises UsageError for an engine that cannot run here, or belongs to another model. If outputs disagree, the verdict says
    so; nothing is raised. `locate` finds the faulty node.
    """
    given = with_defaults(VERIFICATION, options)
    asked = verification_of(onnx_of(model, given.data_folder), Path(engine), given)
    files = report_files.WrittenFiles(path_of(given.html), force=given.force)
    with report_files.verifying(files, asked):
        compared = verify_bundle(asked, logged(given.progress))
    report_files.write_verification(files, asked, compared)
    return compared.verdict
