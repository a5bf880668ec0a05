"""The public function `locate` and its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from onnx import ModelProto
from typing_extensions import TypedDict, Unpack

from trtsmith import report_files
from trtsmith.arguments import logged, onnx_of, precision_of, stage_options, tolerances_of, with_operators
from trtsmith.converter.locate.found import Located
from trtsmith.converter.locate.prepare import LocateOptions, locate_asked
from trtsmith.converter.locate.searched_graph import MEMORY
from trtsmith.converter.model.model_bytes import ModelSource
from trtsmith.converter.model.options.declared import Flag, with_defaults
from trtsmith.converter.model.options.kinds import VALUES, ExecutorName, Progress, Ranges, StrPath, path_of
from trtsmith.model_options import Freezing, Page, Precision, Running, Tolerances
from trtsmith.options import Operators


class Found(TypedDict, total=False):
    """output"""

    output: Annotated[
        StrPath | None,
        Flag("folder for the faulty node (MODEL's name with .located)", "DIR", "-o", "--output", common=True),
    ]


class Search(TypedDict, total=False):
    """search"""

    data_folder: StrPath | None
    on: Annotated[
        ExecutorName,
        Flag(
            "kernels: run plugin nodes in the plugin host and the others in onnxruntime, without TensorRT. auto: "
            "tensorrt if it is installed",
            default="auto",
            common=True,
        ),
    ]
    native: Annotated[bool, Flag("build plugin nodes from standard operators, without the plugins")]
    all: Annotated[bool, Flag("continue after the first faulty node", common=True)]
    memory: Annotated[
        int,
        Flag(
            f"memory for intermediate values at a time ({MEMORY >> 20}): once on the device, twice on the host",
            "MIB",
            default=MEMORY >> 20,
        ),
    ]


class Sizes(TypedDict, total=False):
    """shapes and inputs"""

    shapes: Annotated[Ranges | None, Flag("as for convert", "NAME=MIN:OPT:MAX", common=True)]
    values: Annotated[Ranges | None, Flag("as for convert", "NAME=MIN:OPT:MAX", kind=VALUES)]


class SearchedEngine(Running, total=False):
    """engine"""


class Allowance(Tolerances, total=False):
    """verdict"""


class SearchedOptions(
    Search, Sizes, Freezing, Precision, SearchedEngine, Allowance, Found, Page, Operators, total=False
):
    """The options of `trtsmith locate`."""

    progress: Progress | None


def search_of(model: ModelSource, engine: Path | None, folder: Path | None, given: Any) -> LocateOptions:
    """folder: where the node is saved; None: nowhere."""
    return stage_options(
        LocateOptions,
        SearchedOptions,
        given,
        model=model,
        engine=engine,
        folder=folder,
        timeout_s=given.timeout,
        precision=precision_of(given),
        memory=given.memory << 20,
        everything=given.all,
        tolerances=tolerances_of(given.rtol, given.atol),
    )


@with_operators(SearchedOptions)
def locate(
    model: StrPath | bytes | ModelProto, engine: StrPath | None = None, **options: Unpack[SearchedOptions]
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
    given = with_defaults(SearchedOptions, options)
    asked = search_of(onnx_of(model, given.data_folder), path_of(engine), path_of(given.output), given)
    files, progress = (
        report_files.WrittenFiles(path_of(given.html), force=given.force),
        logged(given.progress),
    )
    return report_files.search(files, asked, lambda ready_for: locate_asked(asked, progress, ready_for))
