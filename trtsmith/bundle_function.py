"""Defines the public function `bundle` and its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, get_args

from typing_extensions import TypedDict, Unpack

from trtsmith.argument_types import checked_types
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.options.declared import options_of, with_defaults
from trtsmith.converter.base.options.kinds import Flag, ServerName, StrPath, path_of
from trtsmith.converter.engine.bundle.deepstream import write_nvinfer
from trtsmith.converter.engine.bundle.engine_facts import BundledEngine, read_facts
from trtsmith.converter.engine.bundle.engine_wrapper import write_wrapper
from trtsmith.converter.engine.bundle.triton import write_model
from trtsmith.converter.engine.bundle.triton_config import TritonOptions
from trtsmith.importers.problem import Problem
from trtsmith.options import Replacing


class ServerChoice(Replacing, total=False):
    """output"""

    runtime: Annotated[
        ServerName,
        Flag(
            "the program that runs the engine (default %(default)s)",
            "",
            "--for",
            default="triton",
            common=True,
        ),
    ]


class TritonChoices(TypedDict, total=False):
    """Triton"""

    name: Annotated[str | None, Flag("the model's name; default: the engine's file name")]
    model_version: Annotated[int, Flag("version of the model in the repository (default 1)", "N", default=1)]
    batching: Annotated[
        bool | None,
        Flag(
            "let the server batch requests along the first dimension (default: if all inputs and outputs have a "
            "dynamic one)",
            alone="batching",
            action="store_const",
            const=True,
        ),
        Flag(
            "do not let the server batch requests",
            "",
            "--no-batching",
            alone="batching",
            action="store_const",
            dest="batching",
            const=False,
        ),
    ]
    instances: Annotated[int, Flag("execution contexts on each GPU (default 1)", "N", default=1)]
    queue_delay_us: Annotated[
        int,
        Flag(
            "how long a request may wait for others, in microseconds (default %(default)d)", "US", default=100
        ),
    ]


class BundleOptions(ServerChoice, TritonChoices, total=False):
    """The options of `trtsmith bundle`."""


@checked_types(BundleOptions)
def bundle(engine: StrPath, output: StrPath | None = None, **options: Unpack[BundleOptions]) -> BundledEngine:
    """Writes what Triton, DeepStream or onnxruntime needs to run an engine of `convert`.

    engine:   an engine with the manifest beside it. Triton takes one of TensorRT, or of TensorRT-RTX in its Python
              backend; the others take one of TensorRT with its plugin libraries beside it.
    output:   Triton's model repository, created if missing; the configuration of DeepStream's nvinfer, by default
              config_infer_primary.txt beside the engine; or onnxruntime's model, by default ENGINE_ctx.onnx there.
    runtime:  "triton", "deepstream" or "onnxruntime".
    name:     Triton: the model's name; None: the engine's file name.
    batching: Triton: whether the server batches requests along the first dimension; None: if all have a dynamic one.
    instances: Triton: execution contexts on each GPU. queue_delay_us: how long a request waits for others, in microseconds.

    >>> import trtsmith
    >>> trtsmith.bundle("model.plan", "models")  # doctest: +SKIP
    BundledEngine(path=PosixPath('models/model'), ...)

    Raises UsageError for an engine that the program cannot run.
    """
    path, given = Path(engine), with_defaults(BundleOptions, options)
    if given.runtime == "triton":
        if output is None:
            facts = read_facts(path)  # what is wrong with the engine comes first
            expected = "the folder that tritonserver --model-repository gets, created if missing"
            beside = "; or --for deepstream, or --for onnxruntime, which write beside the engine"
            others = "" if facts.is_rtx else beside
            raise UsageError(
                f"no model repository is named for {path}",
                "--for triton, the default",
                expected,
                f"--for triton --output models/{others}",
            )
        name = path.stem if given.name is None else given.name
        limits = (given.batching, given.instances, given.queue_delay_us)
        asked = TritonOptions(Path(output), name, given.model_version, *limits)
        return write_model(path, asked, force=given.force)
    wrong = [one for one in options_of(TritonChoices) if getattr(given, one.name) != one.default]
    if wrong:
        flags = [f"--{one.name.replace('_', '-')}" for one in wrong]
        where, fix = f"--for {given.runtime}", "leave it out, or name Triton: --for triton"
        raise UsageError(
            [
                Problem(f"{flag} does not go with {where}", flag, "options of this program", fix)
                for flag in flags
            ]
        )
    write = {"deepstream": write_nvinfer, "onnxruntime": write_wrapper}.get(given.runtime)
    if write is None:
        known = ", ".join(get_args(ServerName))
        raise UsageError(f"nothing can be written for {given.runtime!r}", "--for", known, "give one of these")
    return write(path, path_of(output), force=given.force)
