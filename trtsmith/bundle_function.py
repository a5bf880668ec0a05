"""The public function `bundle` and its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typing_extensions import TypedDict, Unpack

from trtsmith.argument_types import checked_types
from trtsmith.converter.base.options.declared import with_defaults
from trtsmith.converter.base.options.kinds import Flag, StrPath
from trtsmith.converter.engine.bundle.triton import TritonModel, write_model
from trtsmith.converter.engine.bundle.triton_config import TritonOptions


class BundleOptions(TypedDict, total=False):
    """The options of `trtsmith bundle`."""

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


@checked_types(BundleOptions)
def bundle(engine: StrPath, triton: StrPath, **options: Unpack[BundleOptions]) -> TritonModel:
    """Adds an engine of `convert` to a model repository of Triton Inference Server.

    engine:   an engine with the manifest beside it; one of TensorRT with its plugins embedded. One of TensorRT-RTX runs in
              Triton's Python backend.
    triton:   the repository, created if missing.
    name:     the model's name; None: the engine's file name.
    batching: whether the server batches requests along the first dimension; None: if all have a dynamic one.
    instances: execution contexts on each GPU. queue_delay_us: how long a request waits for others, in microseconds.

    >>> import trtsmith
    >>> trtsmith.bundle("model.plan", "models")  # doctest: +SKIP
    TritonModel(folder=PosixPath('models/model'), ...)

    Raises UsageError for an engine that Triton cannot serve.
    """
    path, given = Path(engine), with_defaults(BundleOptions, options)
    name = path.stem if given.name is None else given.name
    limits = (given.batching, given.instances, given.queue_delay_us)
    return write_model(path, TritonOptions(Path(triton), name, given.model_version, *limits))
