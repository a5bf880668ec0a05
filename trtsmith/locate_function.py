"""Defines the public function `locate` and its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from onnx import ModelProto
from typing_extensions import TypedDict, Unpack

from trtsmith import report_files
from trtsmith.arguments import logged, onnx_of, stage_options, with_operators
from trtsmith.converter.base.options import keywords
from trtsmith.converter.base.options.declared import only, with_defaults
from trtsmith.converter.base.options.kinds import Flag, StrPath, path_of
from trtsmith.converter.convert.freezing import FreezingOptions
from trtsmith.converter.convert.precision_request import PrecisionRequest
from trtsmith.converter.engine.runtime.run_request import RunningOptions
from trtsmith.converter.locate.found import Located
from trtsmith.converter.locate.prepare import (
    LocateOptions,
    SearchForm,
    SearchSizes,
    locate_prepared,
    prepared,
)
from trtsmith.converter.model.model_bytes import ModelSource
from trtsmith.converter.verify.tolerances import Tolerances
from trtsmith.options import Operators, Page, Telling, Torch


class Found(TypedDict, total=False):
    """output"""

    output: Annotated[
        StrPath | None,
        Flag("folder for the faulty node (MODEL's name with .located)", "DIR", "-o", "--output", common=True),
    ]


SEARCHED = (
    *(
        only(Torch, "", "data_folder"),
        SearchForm,
        SearchSizes,
        FreezingOptions,
        PrecisionRequest,
        RunningOptions,
    ),
    *(only(Tolerances, "verdict", "rtol", "atol"), Found, Page, Operators, only(Telling, "", "progress")),
)
"""The options of `trtsmith locate`."""


def search_of(model: ModelSource, engine: Path | None, folder: Path | None, given: Any) -> LocateOptions:
    """Makes the search's settings. folder: where the node is saved; None: nowhere."""
    return stage_options(
        LocateOptions,
        SEARCHED,
        given,
        model=model,
        engine=engine,
        folder=folder,
        precision=stage_options(PrecisionRequest, SEARCHED, given),
        tolerances=stage_options(Tolerances, SEARCHED, given),
    )


@with_operators(SEARCHED)
def locate(
    model: StrPath | bytes | ModelProto,
    engine: StrPath | None = None,
    **options: Unpack[keywords.LocateKeywords],
) -> Located:
    """Finds the node that makes an engine's results differ from onnxruntime's.

    model:   the ONNX model: a path, an onnx.ModelProto or the bytes of one.
    engine:  an engine of the model; None: build one.
    output:  a folder to save the node in, as a model with its tensors; None: do not save it.
    data_folder: folder of the external data of a ModelProto or bytes.
    on:      "tensorrt"; "kernels": run plugin nodes in the plugin host, the others in onnxruntime; "auto": tensorrt if it is
        installed.
    native:  build plugin nodes from standard operators, without the plugins.
    all:     continue after the first faulty node.
    memory:  memory for intermediate values at a time, in MiB.
    timeout: time limit of each build and each run, in seconds.
    html:    a file for a page with the network and the errors of its values.

    Other arguments are those of `convert`.

    >>> import trtsmith
    >>> found = trtsmith.locate("model.onnx", shapes={"x": (2, 4, 4)})  # doctest: +SKIP
    >>> found.status, found.nodes  # doctest: +SKIP
    ('agree', ())

    Raises ConversionError, InvalidModelError, and UsageError, for instance without a GPU.
    """
    given = with_defaults(SEARCHED, options)
    asked = search_of(onnx_of(model, given.data_folder), path_of(engine), path_of(given.output), given)
    files = report_files.WrittenFiles(path_of(given.html), force=given.force)
    report_files.check_search(files, asked)
    with prepared(asked) as ready:
        found = locate_prepared(ready, asked, logged(given.progress))
    report_files.write_search(files, asked, ready, found)
    return found
