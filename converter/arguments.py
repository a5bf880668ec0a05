"""Types of command-line arguments. argparse shows the message of an ArgumentTypeError as it is."""

from __future__ import annotations

import math
from argparse import ArgumentParser, ArgumentTypeError, Namespace, _ArgumentGroup
from pathlib import Path
from typing import Any

from converter.errors import UsageError
from converter.precision import PRECISIONS, PrecisionRequest
from importers.problem import Problem


def positive_int(text: str) -> int:
    """1 to 2^31 - 1: MiB or seconds that every interface behind takes."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if not 0 < value < 2**31:
        raise ArgumentTypeError(f"{text!r} is not a whole number from 1 to {2**31 - 1}")
    return value


def positive_seconds(text: str) -> float:
    """A positive time in seconds."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < 2**31:
        raise ArgumentTypeError(f"{text!r} is not a positive number of seconds")
    return value


def targets(text: str) -> tuple[str, ...]:
    """sm86,SM89 as ("sm86", "sm89"). Which of them can be built for is TensorRT's to say."""
    names = tuple(name.strip().lower() for name in text.split(","))
    if not all(name.startswith("sm") and name[2:].isascii() and name[2:].isdigit() for name in names):
        raise ArgumentTypeError(f"{text!r} is not a list of GPU targets such as sm86,sm89")
    return tuple(dict.fromkeys(names))


def add_precision(parser: ArgumentParser) -> None:
    """--precision, --keep-fp32, --io-precision and --calibration."""
    group = parser.add_argument_group("precision")
    group.add_argument(
        "--precision",
        default="",
        choices=PRECISIONS,
        help="compute in this type what bears it; inputs and outputs keep theirs. Default: the types of the model",
    )
    group.add_argument(
        "--keep-fp32",
        action="append",
        default=[],
        metavar="NAME|OP",
        help="leave nodes in float32: a name, a pattern such as '/head/*', or an operator; may be repeated",
    )
    group.add_argument(
        "--io-precision", action="store_true", help="give float inputs and outputs that type too"
    )
    _add_calibration(group)


def _add_calibration(group: _ArgumentGroup) -> None:
    group.add_argument(
        "--calibration",
        action="append",
        default=[],
        type=Path,
        metavar="NPZ",
        help="inputs to calibrate int8 and fp8 with, samples along the first axis; may be repeated (default: --inputs)",
    )


def precision_of(options: Namespace) -> PrecisionRequest:
    """What these ask for. UsageError: a flag that means nothing with the precision that is, or is not, asked for."""
    given = {
        "--keep-fp32": bool(options.keep_fp32),
        "--io-precision": options.io_precision,
        "--calibration": bool(options.calibration),
    }
    problems = []
    for flag, meaning in _WITH.items():
        if given[flag] and options.precision not in meaning:
            beside = f"with --precision {options.precision}" if options.precision else "without --precision"
            fix = f"add --precision {meaning[0]}, or remove {flag}"
            expected = f"--precision {', '.join(meaning)} beside it"
            problems.append(Problem(f"{flag} has no meaning {beside}", flag, expected, fix))
    if problems:
        raise UsageError(problems)
    return PrecisionRequest(
        options.precision, tuple(options.keep_fp32), options.io_precision, tuple(options.calibration)
    )


_WITH = {
    "--keep-fp32": ("fp16", "bf16", "int8", "fp8"),
    "--io-precision": ("fp16", "bf16", "fp32"),
    "--calibration": ("int8", "fp8"),
}
"""By flag, the precisions with which it means something."""


def add_freezing(parser: ArgumentParser, use: str) -> None:
    """--freeze and --inputs. use: what else example inputs are for."""
    group = parser.add_argument_group("inputs that become constants")
    group.add_argument(
        "--freeze",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="make an input a constant: axes=[0,1], k=3, ratio=0.5, training=true, or grid=@FILE.npy; may be repeated",
    )
    group.add_argument("--inputs", type=Path, metavar="NPZ", help=f"example inputs, {use}")


def add_flavour(parser: Any) -> None:
    """--flavour. parser: or a group of its arguments."""
    parser.add_argument(
        "--flavour",
        default="auto",
        choices=("auto", "tensorrt", "tensorrt_rtx"),
        help="which TensorRT; auto: with a GPU tensorrt if it is there, else tensorrt_rtx",
    )
