"""Defines the command-line arguments of a precision, apart from the others: only commands that convert can import these."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace, _ArgumentGroup
from pathlib import Path

from trtsmith.converter.convert.precision_request import PRECISIONS, PrecisionRequest
from trtsmith.converter.rewrite.precision.sums import ACCUMULATE


def add_precision(parser: ArgumentParser) -> None:
    """--precision and the flags that go with it."""
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
        "--accumulate",
        default="",
        choices=ACCUMULATE,
        help="with fp16 and TensorRT-RTX, which sums products of float16 in float16: keep no node in float32 for that "
        "(fp16), those of more than 256 products (fp32), or those without which an output would be off by more than is "
        "allowed (auto, the default)",
    )
    group.add_argument(
        "--float-lstm",
        action="store_true",
        help="compute DynamicQuantizeLSTM as an LSTM in float32: one fast layer, whose input and state are not rounded to 8 "
        "bits before each step. Its numbers differ from onnxruntime's by as much as that rounding changes, 0.001 to 0.7 of "
        "the largest where it was seen",
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
    return PrecisionRequest(
        options.precision,
        tuple(options.keep_fp32),
        options.io_precision,
        tuple(options.calibration),
        accumulate=options.accumulate,
        float_lstm=options.float_lstm,
    )
