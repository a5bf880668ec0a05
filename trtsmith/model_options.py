"""Declares the options that several commands have which read a model, or run its engine: trtsmith.options says how."""

from __future__ import annotations

from argparse import BooleanOptionalAction
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from typing_extensions import TypedDict

from trtsmith.converter.convert.mending.refusals import MAY_DIFFER, REDUCE_S
from trtsmith.converter.convert.precision_request import PRECISIONS
from trtsmith.converter.convert.pytorch.torch_source import EXPORT_TIMEOUT_S
from trtsmith.converter.engine.build.build_request import OPTIMIZATION_LEVELS
from trtsmith.converter.rewrite.precision.sums import ACCUMULATE
from trtsmith.converter.verify.tolerances import KINDS
from trtsmith.flags import targets
from trtsmith.options import Arrays, Flag, Freeze, Paths, Ranges, Samples, StrPath, Texts, Tolerance

FLAVOURS = ("auto", "tensorrt", "tensorrt_rtx")
FLAVOUR = Flag(
    "which TensorRT; auto: with a GPU tensorrt if it is there, else tensorrt_rtx",
    default="auto",
    choices=FLAVOURS,
)
PREFER_STOCK = Flag("leave nodes to the plugins that TensorRT itself brings, also where one of ours would do")
PLUGINS = Flag("a plugin library {}; may be repeated", "LIB")
TARGET = Flag(
    "GPUs to build for, as sm86,sm89 or rtx3090,l4; default: the GPU that is there, else sm86",
    "SM|GPU",
    type=targets,
)
LEVEL = Flag("0 builds fastest, 5 searches longest", "0-5", choices=OPTIMIZATION_LEVELS, type=int)
TIMEOUT = Flag("give the build up after this time", "SECONDS")
INPUTS = Flag("example inputs, {}", "NPZ")


class Torch(TypedDict, total=False):
    """PyTorch programs"""

    dynamic_shapes: Any
    custom_translation_table: Mapping[Any, Any] | None
    save_onnx: Annotated[StrPath | None, Flag("keep the ONNX model that the program becomes", "FILE")]
    export_timeout: Annotated[
        float | None, Flag(f"give loading and exporting up after this time ({EXPORT_TIMEOUT_S:g})", "SECONDS")
    ]
    data_folder: StrPath | None


def _trtexec(name: str) -> Flag:
    return Flag("as trtexec takes it: a:1x3x8x8,b:1x4", "SPEC", f"--{name}Shapes", default="")


class Shapes(TypedDict, total=False):
    """shapes of dynamic inputs"""

    shapes: Annotated[
        Ranges | None,
        Flag(
            "as images=1x3x320x320:1x3x640x640:8x3x1280x1280, or one shape for all three, once for each input; or "
            "images:1x3x640x640,mask:1x1, as trtexec writes it",
            "NAME=MIN:OPT:MAX",
        ),
        _trtexec("min"),
        _trtexec("opt"),
        _trtexec("max"),
    ]
    values: Annotated[
        Ranges | None,
        Flag(
            "values of an integer input that decides shapes, as sizes=[1,1]:[2,3]:[8,8]; once for each such input",
            "NAME=MIN:OPT:MAX",
        ),
    ]


class Freezing(TypedDict, total=False):
    """inputs that become constants"""

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
        str,
        Flag(
            "compute in this type what bears it; inputs and outputs keep theirs. Default: the types of the model",
            choices=PRECISIONS,
        ),
    ]
    keep_fp32: Annotated[
        Texts,
        Flag(
            "leave nodes in float32: a name, a pattern such as '/head/*', or an operator; may be repeated",
            "NAME|OP",
        ),
    ]
    accumulate: Annotated[
        str,
        Flag(
            "with fp16 and TensorRT-RTX, which sums products of float16 in float16: keep no node in float32 for that "
            "(fp16), those of more than 256 products (fp32), or those without which an output would be off by more than is "
            "allowed (auto, the default)",
            choices=ACCUMULATE,
        ),
    ]
    float_lstm: Annotated[
        bool,
        Flag(
            "compute DynamicQuantizeLSTM as an LSTM in float32: one fast layer, whose input and state are not rounded to 8 "
            "bits before each step. Its numbers differ from onnxruntime's by as much as that rounding changes, 0.001 to 0.7 "
            "of the largest where it was seen"
        ),
    ]
    io_precision: Annotated[bool, Flag("give float inputs and outputs that type too")]
    calibration: Annotated[
        Samples,
        Flag(
            "inputs to calibrate int8 and fp8 with, samples along the first axis; may be repeated (default: --inputs)",
            "NPZ",
        ),
    ]


class Refused(TypedDict, total=False):
    """a graph that is refused"""

    mend: Annotated[
        bool,
        Flag(
            "write the nodes in a way that builds and means the same, if one is known (default), or only tell of it",
            default=True,
            action=BooleanOptionalAction,
        ),
    ]
    mend_with: Annotated[
        Texts,
        Flag(
            "also in a way that may change results; a message names it; may be repeated",
            "NAME",
            choices=MAY_DIFFER,
        ),
    ]
    reduce: Annotated[
        bool,
        Flag(
            "look for the nodes (default), or not; nothing is mended then",
            default=True,
            action=BooleanOptionalAction,
        ),
    ]
    reduce_timeout: Annotated[
        float, Flag(f"look for the nodes so long; default: {REDUCE_S:g}", "SECONDS", default=REDUCE_S)
    ]
    refused: Annotated[StrPath | None, Flag("save the nodes as this model; default: {}", "ONNX")]


class Tolerances(TypedDict, total=False):
    rtol: Annotated[Tolerance | None, Flag("relative tolerance", "[OUT:]X")]
    atol: Annotated[Tolerance | None, Flag("absolute tolerance", "[OUT:]X")]


class Compared(Tolerances, total=False):
    not_compared: Annotated[
        Texts,
        Flag(
            "an output that may be left out of the comparison, if it cannot be compared; may be repeated",
            "OUT",
        ),
    ]
    compare: Annotated[
        Mapping[str, str] | None,
        Flag(
            f"what an output is compared as, where its graph does not show it: {', '.join(KINDS)}; may be repeated",
            "OUT=KIND",
        ),
    ]


class Running(TypedDict, total=False):
    plugins: Annotated[Paths, PLUGINS]
    flavour: Annotated[
        str,
        Flag(
            "which TensorRT; auto: the manifest's, else tensorrt if it is there, else tensorrt_rtx",
            default="auto",
            choices=FLAVOURS,
        ),
    ]
    timeout: Annotated[float | None, Flag("{}", "SECONDS")]


class Page(TypedDict, total=False):
    html: Annotated[
        StrPath | None,
        Flag(
            "write a page to look at: what was done and why, the network, errors, times; it needs no network",
            "FILE",
        ),
        Flag(
            "write overlays for Google's Model Explorer: route, rule, type, error and time by node",
            "DIR",
            "--model-explorer",
            type=Path,
        ),
    ]
