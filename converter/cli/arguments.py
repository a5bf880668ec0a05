"""Reads command-line arguments. argparse shows the message of an ArgumentTypeError as it is."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from pathlib import Path
from typing import Any

from trtsmith.converter.model.option_values import EXPECTED, is_count, is_seconds, is_target

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


def targets(text: str) -> tuple[str, ...]:
    """sm86,SM89 as ("sm86", "sm89")."""
    names = tuple(name.strip().lower() for name in text.split(","))
    if not all(map(is_target, names)):
        raise ArgumentTypeError(f"{text!r} is not a list of GPU targets such as sm86,sm89")
    return tuple(dict.fromkeys(names))


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
