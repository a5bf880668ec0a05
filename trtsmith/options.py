"""Options of several commands: operators from outside, files that are replaced, progress."""

from __future__ import annotations

from typing import Annotated, Any

from typing_extensions import TypedDict

from trtsmith.converter.model.options.declared import Flag
from trtsmith.converter.model.options.kinds import SPECS, Paths, Progress
from trtsmith.converter.operators.sources import GROUP, LEAVE_OUT, VARIABLE

REFERENCE = Flag(
    "your function, in numpy or PyTorch, that computes an operator's nodes instead of onnxruntime, or the whole model; may "
    "be repeated",
    "[OP_TYPE=]MODULE:FUNCTION",
)


class Operators(TypedDict, total=False):
    """your own operators"""

    ops: Annotated[
        Paths,
        Flag(
            "FILE.py, a FOLDER or a dotted MODULE with their definitions, OPERATORS; its code is imported and run; may be "
            f"repeated. {VARIABLE} names more",
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
    """The given options as words of the command that a record keeps."""
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
