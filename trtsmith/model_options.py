"""Declares options that several commands share for reading a model or running its engine (see trtsmith.options)."""

from __future__ import annotations

from argparse import BooleanOptionalAction
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from typing_extensions import TypedDict

from trtsmith.converter.convert.pytorch.torch_source import EXPORT_TIMEOUT_S
from trtsmith.converter.convert.workarounds.refusals import MAY_DIFFER, REDUCE_S
from trtsmith.converter.model.options.declared import Flag
from trtsmith.converter.model.options.gpu_names import DEVICES
from trtsmith.converter.model.options.kinds import (
    DEVICE,
    VALUES,
    AccumulateName,
    Arrays,
    FlavourName,
    Freeze,
    Paths,
    PrecisionName,
    Ranges,
    Samples,
    StrPath,
    Texts,
    Tolerance,
)
from trtsmith.converter.verify.tolerances import KINDS
from trtsmith.flags import NextProfile
from trtsmith.options import Replacing

PREFER_STOCK = Flag("use TensorRT's own plugins, even for nodes that trtsmith has a plugin for")
PLUGINS = Flag("a plugin library {}; may be repeated", "LIB")
BUNDLE_FOR = Flag(
    f"build nothing here: write a folder from which the device builds, runs and compares the engine ({', '.join(DEVICES)})",
    "DEVICE",
    kind=DEVICE,
)
INPUTS = Flag("example inputs, {}", "NPZ", common=True)


class Torch(TypedDict, total=False):
    """model"""

    dynamic_shapes: Any
    custom_translation_table: Mapping[Any, Any] | None
    save_onnx: Annotated[StrPath | None, Flag("also save the exported ONNX model", "FILE")]
    export_timeout: Annotated[
        float | None, Flag(f"time limit of loading and exporting ({EXPORT_TIMEOUT_S:g})", "SECONDS")
    ]
    data_folder: StrPath | None


def _trtexec(name: str) -> Flag:
    return Flag("as in trtexec: a:1x3x8x8,b:1x4", "SPEC", f"--{name}Shapes", default="")


class Shapes(TypedDict, total=False):
    """shapes and inputs"""

    shapes: Annotated[
        Ranges | None,
        Flag(
            "the sizes of a dynamic input, once for each: images=1x3x320x320:1x3x640x640:8x3x1280x1280, or one shape for "
            "all three. trtexec's form works, too: images:1x3x640x640,mask:1x1",
            "NAME=MIN:OPT:MAX",
            common=True,
        ),
        _trtexec("min"),
        _trtexec("opt"),
        _trtexec("max"),
        Flag(
            "begin the shapes of optimization profile N, from 0, as in trtexec",
            "N",
            "--profile",
            default=(),
            dest="profiles",
            type=int,
            action=NextProfile,
        ),
    ]
    values: Annotated[
        Ranges | None,
        Flag(
            "range of an integer input whose values decide shapes, such as sizes=[1,1]:[2,3]:[8,8]; once for each "
            "such input",
            "NAME=MIN:OPT:MAX",
            kind=VALUES,
        ),
    ]


class Freezing(TypedDict, total=False):
    """shapes and inputs"""

    freeze: Annotated[
        Freeze,
        Flag(
            "make an input a constant: axes=[0,1], k=3, ratio=0.5, training=true, or grid=@FILE.npy; may be repeated",
            "NAME=VALUE",
        ),
    ]
    inputs: Annotated[Arrays | None, INPUTS]


class Precision(TypedDict, total=False):
    """precision"""

    precision: Annotated[
        PrecisionName,
        Flag(
            "run layers in this type where accuracy allows; inputs and outputs keep their types. Default: the model's types",
            common=True,
        ),
    ]
    keep_fp32: Annotated[
        Texts,
        Flag(
            "keep nodes in float32: a name, a pattern such as '/head/*', or an operator; may be repeated",
            "NAME|OP",
        ),
    ]
    accumulate: Annotated[
        AccumulateName,
        Flag(
            "for fp16 with TensorRT-RTX, which sums float16 products in float16: keep no such sum in float32 (fp16), "
            "sums of "
            "more than 256 products (fp32), or as many as the accuracy of the outputs needs (auto, the default)",
        ),
    ]
    float_lstm: Annotated[
        bool,
        Flag(
            "compute DynamicQuantizeLSTM as a float32 LSTM: one fast layer that does not round its input and state to "
            "8 bits. "
            "The missing rounding changes the results: by 0.001 to 0.7 of the largest value in the cases seen"
        ),
    ]
    io_precision: Annotated[bool, Flag("convert float inputs and outputs to that type too")]
    calibration: Annotated[
        Samples,
        Flag(
            "samples to calibrate int8 and fp8 with, along the first axis (default: --inputs); may be repeated",
            "NPZ",
            common=True,
        ),
    ]


class Refused(TypedDict, total=False):
    """refused graphs"""

    mend: Annotated[
        bool,
        Flag(
            "apply a known, exact workaround to refused nodes (default), or only report it",
            default=True,
            action=BooleanOptionalAction,
        ),
    ]
    mend_with: Annotated[
        Texts,
        Flag(
            "also apply this workaround, which may change results; the error names it; may be repeated",
            "NAME",
            choices=MAY_DIFFER,
        ),
    ]
    reduce: Annotated[
        bool,
        Flag(
            "search for the nodes that TensorRT refuses (default), or skip the search and all workarounds",
            default=True,
            action=BooleanOptionalAction,
        ),
    ]
    reduce_timeout: Annotated[
        float, Flag(f"time limit of the search; default: {REDUCE_S:g}", "SECONDS", default=REDUCE_S)
    ]
    refused: Annotated[StrPath | None, Flag("save the refused nodes as this model; default: {}", "ONNX")]


class Tolerances(TypedDict, total=False):
    rtol: Annotated[Tolerance | None, Flag("relative tolerance", "[OUT:]X", common=True)]
    atol: Annotated[Tolerance | None, Flag("absolute tolerance", "[OUT:]X", common=True)]


class Compared(Tolerances, total=False):
    not_compared: Annotated[
        Texts,
        Flag(
            "accept that this output cannot be compared; may be repeated",
            "OUT",
        ),
    ]
    compare: Annotated[
        Mapping[str, str] | None,
        Flag(
            f"how to compare an output, if the graph does not show it: {', '.join(KINDS)}; may be repeated",
            "OUT=KIND",
        ),
    ]


class Running(TypedDict, total=False):
    plugins: Annotated[Paths, PLUGINS]
    flavour: Annotated[
        FlavourName,
        Flag(
            "which TensorRT; auto: the manifest's, else tensorrt if it is installed, else tensorrt_rtx",
            default="auto",
        ),
    ]
    timeout: Annotated[float | None, Flag("{}", "SECONDS")]


class Page(Replacing, total=False):
    """output"""

    html: Annotated[
        StrPath | None,
        Flag(
            "an HTML report: changes and reasons, the network, errors, times",
            "FILE",
            common=True,
        ),
        Flag(
            "write overlays for Google's Model Explorer: route, rule, type, error and time by node",
            "DIR",
            "--model-explorer",
            type=Path,
        ),
    ]
