"""Reads command-line arguments. argparse shows the message of an ArgumentTypeError as it is."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

from trtsmith.converter.convert.pytorch.torch_source import (
    EXPORT_TIMEOUT_S,
    TorchFactory,
    TorchFile,
    source_of_text,
)
from trtsmith.converter.model.errors import UsageError
from trtsmith.converter.model.option_values import EXPECTED, is_cost, is_count, is_seconds
from trtsmith.converter.model.options.gpu_names import parse_targets
from trtsmith.converter.model.shapes import ShapeRange, parse_shapes
from trtsmith.converter.operators.sources import GROUP, LEAVE_OUT, VARIABLE
from trtsmith.converter.verify.tolerances import KINDS
from trtsmith.importers.problem import Problem

FLAVOURS = ("auto", "tensorrt", "tensorrt_rtx")


def positive_int(text: str) -> int:
    """A whole number of MiB, samples or the like."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if not is_count(value):
        raise ArgumentTypeError(f"{text!r} is not {EXPECTED[is_count]}")
    return value


def positive_seconds(text: str) -> float:
    """A positive time in seconds."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not is_seconds(value):
        raise ArgumentTypeError(f"{text!r} is not {EXPECTED[is_seconds]}")
    return value


def cost(text: str) -> float:
    """What the precision may change of an output."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not is_cost(value):
        raise ArgumentTypeError(f"{text!r} is not {EXPECTED[is_cost]}")
    return value


def targets(text: str) -> tuple[str, ...]:
    """sm86,RTX 4090 as ("sm86", "sm89")."""
    try:
        return parse_targets(text)
    except UsageError as error:
        (problem,) = error.problems
        raise ArgumentTypeError(f"{problem.what}: {problem.expected}; {problem.fix}") from error


def add_model(parser: ArgumentParser, name: str = "MODEL") -> None:
    """The model, and how one of PyTorch's is exported. See `model_of`."""
    parser.add_argument(
        "model",
        metavar=name,
        help="an .onnx file; a program that torch.export.save wrote (.pt2); or package.module:function or FILE.py:function, "
        "which gives a PyTorch module and its example",
    )
    group = parser.add_argument_group("PyTorch programs")
    group.add_argument(
        "--save-onnx", type=Path, metavar="FILE", help="keep the ONNX model that the program becomes"
    )
    group.add_argument(
        "--export-timeout",
        type=positive_seconds,
        default=EXPORT_TIMEOUT_S,
        metavar="SECONDS",
        help="give loading and exporting up after this time (%(default)g)",
    )


def model_of(options: Namespace) -> Path | TorchFile | TorchFactory:
    """What MODEL means. UsageError for flags of PyTorch programs beside an ONNX file."""
    source = source_of_text(options.model)
    if not isinstance(source, Path):
        return replace(source, save=options.save_onnx, timeout_s=options.export_timeout)
    if options.save_onnx is not None:
        what, where = f"{source} is an ONNX model already", f"--save-onnx {options.save_onnx}"
        raise UsageError(Problem(what, where, "a program of PyTorch", "leave the flag out"))
    return source


def add_operators(parser: ArgumentParser) -> None:
    """--ops and --no-plugins-from-packages (trtsmith.converter.operators)."""
    group = parser.add_argument_group("operators from outside")
    group.add_argument(
        "--ops",
        action="append",
        default=[],
        dest="ops",
        metavar="SPEC",
        help="definitions of operators of your own: FILE.py, a FOLDER or a dotted MODULE with OPERATORS, which is imported "
        f"and so runs; may be repeated. {VARIABLE} names more",
    )
    group.add_argument(
        LEAVE_OUT,
        action="store_false",
        dest="plugins_from_packages",
        help=f"leave out operators of installed packages, which the entry points {GROUP} name",
    )


def operator_words(options: Namespace) -> list[str]:
    """The arguments of `add_operators`, as they were given: of the command that a record keeps."""
    words = [word for spec in options.ops for word in ("--ops", spec)]
    return words if options.plugins_from_packages else [*words, LEAVE_OUT]


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


def add_shapes(parser: ArgumentParser) -> None:
    """--shapes, trtexec's three flags and --values: the profile. See `shapes_of`, and parse_values for the last."""
    shapes = parser.add_argument_group("shapes of dynamic inputs")
    shapes.add_argument(
        "--shapes",
        action="append",
        default=[],
        metavar="NAME=MIN:OPT:MAX",
        help="as images=1x3x320x320:1x3x640x640:8x3x1280x1280, or one shape for all three, once for each input; or "
        "images:1x3x640x640,mask:1x1, as trtexec writes it",
    )
    for name in ("min", "opt", "max"):
        shapes.add_argument(
            f"--{name}Shapes", default="", metavar="SPEC", help="as trtexec takes it: a:1x3x8x8,b:1x4"
        )
    shapes.add_argument(
        "--values",
        action="append",
        default=[],
        metavar="NAME=MIN:OPT:MAX",
        help="values of an integer input that decides shapes, as sizes=[1,1]:[2,3]:[8,8]; once for each such input",
    )


def shapes_of(options: Namespace) -> dict[str, ShapeRange]:
    """The shapes that the flags of `add_shapes` give. UsageError for what is none."""
    return parse_shapes(options.shapes, options.minShapes, options.optShapes, options.maxShapes)


def add_flavour(parser: Any) -> None:
    """--flavour. parser: or a group of its arguments."""
    parser.add_argument(
        "--flavour",
        default="auto",
        choices=FLAVOURS,
        help="which TensorRT; auto: with a GPU tensorrt if it is there, else tensorrt_rtx",
    )


def add_prefer_stock(parser: Any) -> None:
    """--prefer-stock."""
    parser.add_argument(
        "--prefer-stock",
        action="store_true",
        help="leave nodes to the plugins that TensorRT itself brings, also where one of ours would do",
    )


def add_plugins(parser: Any, which: str) -> None:
    """--plugins. which: the libraries that are meant, as "of your own"."""
    parser.add_argument(
        "--plugins",
        action="append",
        default=[],
        type=Path,
        metavar="LIB",
        help=f"a plugin library {which}; may be repeated",
    )


def add_running(parser: Any, plugins: str, timeout: str) -> None:
    """--plugins, --flavour and --timeout of commands that run engines. plugins, timeout: what the two are for."""
    add_plugins(parser, plugins)
    parser.add_argument(
        "--flavour",
        default="auto",
        choices=FLAVOURS,
        help="which TensorRT; auto: the manifest's, else tensorrt if it is there, else tensorrt_rtx",
    )
    parser.add_argument("--timeout", type=positive_seconds, metavar="SECONDS", help=timeout)


def add_references(parser: Any) -> None:
    """--reference (trtsmith.converter.verify.references)."""
    parser.add_argument(
        "--reference",
        action="append",
        default=[],
        metavar="[OP_TYPE=]MODULE:FUNCTION",
        help="a function of yours, in numpy or PyTorch, that computes the nodes of an operator in onnxruntime's place, "
        "or the whole model; may be repeated",
    )


def add_tolerances(parser: Any) -> None:
    """--rtol and --atol (trtsmith.converter.verify.tolerances)."""
    parser.add_argument("--rtol", action="append", default=[], metavar="[OUT:]X", help="relative tolerance")
    parser.add_argument("--atol", action="append", default=[], metavar="[OUT:]X", help="absolute tolerance")


def add_outputs_compared(parser: Any) -> None:
    """--not-compared and --compare (trtsmith.converter.verify.tolerances)."""
    parser.add_argument(
        "--not-compared",
        action="append",
        default=[],
        metavar="OUT",
        help="an output that may be left out of the comparison, if it cannot be compared; may be repeated",
    )
    parser.add_argument(
        "--compare",
        action="append",
        default=[],
        metavar="OUT=KIND",
        help=f"what an output is compared as, where its graph does not show it: {', '.join(KINDS)}; may be repeated",
    )


def add_max_cost(parser: Any) -> None:
    """--max-cost."""
    parser.add_argument(
        "--max-cost",
        type=cost,
        metavar="X",
        help="what int8 or fp8 may change of any output of the original, as 0.05; more ends with exit code 3",
    )


def add_target(parser: Any) -> None:
    """--target."""
    parser.add_argument(
        "--target",
        type=targets,
        default=(),
        metavar="SM|GPU",
        help="GPUs to build for, as sm86,sm89 or rtx3090,l4; default: the GPU that is there, else sm86",
    )


def add_timeout(parser: Any) -> None:
    """--timeout of a build."""
    parser.add_argument(
        "--timeout", type=positive_seconds, metavar="SECONDS", help="give the build up after this time"
    )
