"""Defines options that several commands have, and that the API and the command line read themselves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from typing_extensions import TypedDict

from trtsmith.converter.base.options.kinds import (
    SPECS,
    VALUES,
    Flag,
    Paths,
    Progress,
    Ranges,
    StrPath,
)
from trtsmith.converter.convert.pytorch.torch_source import EXPORT_TIMEOUT_S
from trtsmith.converter.operators.sources import GROUP, LEAVE_OUT, VARIABLE
from trtsmith.flags import NextProfile


class Operators(TypedDict, total=False):
    """your own operators"""

    ops: Annotated[
        Paths,
        Flag(
            "definitions of your operators, OPERATORS; in FILE.py, a FOLDER or a dotted MODULE, whose code is imported and "
            f"run; may be repeated. {VARIABLE} names more",
            "SPEC",
            common=True,
            kind=SPECS,
        ),
    ]
    plugins_from_packages: Annotated[
        bool,
        Flag(
            f"ignore operators of installed packages (entry points {GROUP})",
            "",
            LEAVE_OUT,
            default=True,
            action="store_false",
        ),
    ]


def operator_words(options: Any) -> list[str]:
    """Returns the given options as words of the command that a record keeps."""
    words = [word for spec in options.ops for word in ("--ops", spec)]
    return words if options.plugins_from_packages else [*words, LEAVE_OUT]


class Replacing(TypedDict, total=False):
    """output"""

    force: Annotated[
        bool,
        Flag(
            "replace any existing file; default: only what the same command wrote, and an engine only of the same model"
        ),
    ]


class Telling(TypedDict, total=False):
    verbose: bool  # of which every command has the flag
    progress: Progress | None


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
            "the sizes of a dynamic input: images=1x3x320x320:1x3x640x640:8x3x1280x1280; or one shape for all three; once "
            "for each input. trtexec's form works, too: images:1x3x640x640,mask:1x1",
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


class Page(Replacing, total=False):
    """output"""

    html: Annotated[
        StrPath | None,
        Flag(
            "an HTML report; it shows changes and reasons, the network, errors, times",
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
