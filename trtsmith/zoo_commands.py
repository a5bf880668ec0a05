"""Gives the zoo reader parsers of the options of `convert`, `bench` and `tune`, and their checks."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NoReturn

from trtsmith.arguments import stage_options
from trtsmith.bench_function import TIMED
from trtsmith.convert_function import CONVERSION, Compared
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.options.declared import Options
from trtsmith.converter.base.options.kinds import shapes_of, values_of
from trtsmith.converter.batch.task import ENGINE
from trtsmith.converter.batch.zoo.zoo_options import OptionCheck, ZooCommand, ZooCommands
from trtsmith.converter.bench.subject import BenchOptions, check_options
from trtsmith.converter.convert.precision_request import PrecisionRequest
from trtsmith.converter.convert.workarounds.refusals import Refusals
from trtsmith.converter.engine.builder.deployment import SETTABLE, settings_of
from trtsmith.converter.tune.tune import TuningOptions
from trtsmith.converter.verify.tolerances import Tolerances
from trtsmith.flags import add_options
from trtsmith.tune_function import TUNING

_LOUDNESS = "how things are said is an option of `trtsmith batch` itself"
_OWN_FOLDER = "a batch sets it: what a task writes is in the task's own folder"
_NO_MODEL = "a task times its engine, which is built already; `trtsmith bench MODEL` does it by hand"

_OF_MODEL = "`trtsmith tune` gets it from the model's own options; write it there"

_OF_ALL = dict.fromkeys(("quiet", "verbose", "color"), _LOUDNESS) | dict.fromkeys(
    ("html", "model-explorer", "json", "force"), _OWN_FOLDER
)

REFUSED_OF_CONVERT = {
    **dict.fromkeys(("help", "help-all"), "it converts nothing"),
    **_OF_ALL,
    **dict.fromkeys(("output", "report", "refused", "save-onnx"), _OWN_FOLDER),
    "dry-run": "a task converts; `trtsmith check` only looks",
    "profile": "an entry has one profile",
    **dict.fromkeys(("bundle-for", "plugins-aarch64"), "a task builds an engine; by hand for a device"),
    "timing-cache": "tasks run in any order and at the same time: an engine would depend on those before it",
}
"""Options of `convert` that a zoo cannot give, and why; also those that only some versions of it have."""

REFUSED_OF_BENCH = {
    **dict.fromkeys(("help", "help-all"), "it times nothing"),
    **_OF_ALL,
    **dict.fromkeys(("freeze", "against", "torch", "plugin-vs-native"), _NO_MODEL),
}


class _RaisingParser(argparse.ArgumentParser):
    """argparse whose errors are exceptions."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, "", f"what `{self.prog} --help` says of it", "correct it, or remove it")


def zoo_commands() -> ZooCommands:
    """Returns the commands, with the options that they have now."""
    of_convert = (
        OptionCheck(("shapes", "minShapes", "optShapes", "maxShapes"), shapes_of),
        OptionCheck(("values",), lambda options: values_of(options.values)),
        OptionCheck(
            ("rtol", "atol", "not-compared", "compare", "max-cost"),
            lambda options: stage_options(Tolerances, Tolerances, options),
        ),
        OptionCheck(
            (
                "keep-fp32",
                "keep-only",
                "accumulate",
                "io-precision",
                "calibration",
                "float-lstm",
                "precision",
            ),
            lambda options: stage_options(PrecisionRequest, PrecisionRequest, options),
        ),
        OptionCheck(
            ("mend-with", "reduce-timeout", "mend", "reduce"),
            lambda options: stage_options(Refusals, Refusals, options),
        ),
        OptionCheck(("reference", "expected"), _check_references),
        OptionCheck(tuple(name.replace("_", "-") for name in SETTABLE), settings_of),
    )
    of_bench = (
        OptionCheck(
            ("at", "shapes", "inputs"),
            lambda options: check_options(stage_options(BenchOptions, TIMED, options, target=Path(ENGINE))),
        ),
    )
    of_tune = (
        OptionCheck(
            ("precisions", "samples", "max-error"),
            lambda options: stage_options(TuningOptions, TuningOptions, options),
        ),
    )
    model = ("MODEL", "-o", ENGINE)
    convert = ZooCommand("convert", _parser_of("convert", CONVERSION), model, REFUSED_OF_CONVERT, of_convert)
    shared = dict.fromkeys(convert.options(), _OF_MODEL) | REFUSED_OF_CONVERT
    return ZooCommands(
        convert,
        ZooCommand("bench", _parser_of("bench", TIMED), (ENGINE,), REFUSED_OF_BENCH, of_bench),
        ZooCommand("tune", _parser_of("tune", TUNING), model, shared, of_tune),
        ZooCommand("verdict", _parser_of("verdict", (Tolerances, Compared)), (), {}).dests(),
        shapes_of,
    )


def _parser_of(name: str, options: Options) -> _RaisingParser:
    """The command's parser but for what it says, and for what only the terminal has."""
    parser = _RaisingParser(prog=f"trtsmith {name}")
    parser.add_argument("given")
    add_options(parser, options, None, **dict.fromkeys(("inputs", "plugins", "refused", "timeout"), ""))
    return parser


def _check_references(options: argparse.Namespace) -> None:
    """The form alone: a function is loaded by the task that calls it, as loading runs its module."""
    whole = []
    for spec in options.reference:
        name = spec.rpartition("=")[2]
        module, _, function = name.partition(":")
        if not module or not function:
            what, expected = f"{spec!r} names no function", "[OP_TYPE=]MODULE:FUNCTION"
            raise UsageError(what, f"--reference {spec}", expected, "correct it")
        whole += [spec] if "=" not in spec else []
    if whole and (options.expected is not None or len(whole) > 1):
        what, where = "the expected outputs are given twice", f"--reference {whole[-1]}"
        raise UsageError(what, where, "one of them", "remove the other one")
