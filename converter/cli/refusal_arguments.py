"""Reads what is to be done where TensorRT refuses a model: --reduce, --mend and their kin."""

from __future__ import annotations

from argparse import BooleanOptionalAction, Namespace
from pathlib import Path
from typing import Any

from trtsmith.converter.cli.arguments import positive_seconds
from trtsmith.converter.convert.mending.refusals import MAY_DIFFER, REDUCE_S, Refusals, refusals


def add_refusals(parser: Any, where: str) -> None:
    """where: the nodes are saved when --refused names no place."""
    group = parser.add_argument_group("a graph that is refused")
    group.add_argument(
        "--mend",
        action=BooleanOptionalAction,
        default=True,
        help="write the nodes in a way that builds and means the same, if one is known (default), or only tell of it",
    )
    group.add_argument(
        "--mend-with",
        action="append",
        default=[],
        choices=MAY_DIFFER,
        metavar="NAME",
        help="also in a way that may change results; a message names it; may be repeated",
    )
    group.add_argument(
        "--reduce",
        action=BooleanOptionalAction,
        default=True,
        help="look for the nodes (default), or not; nothing is mended then",
    )
    group.add_argument(
        "--reduce-timeout",
        type=positive_seconds,
        default=REDUCE_S,
        metavar="SECONDS",
        help=f"look for the nodes so long; default: {REDUCE_S:g}",
    )
    group.add_argument(
        "--refused", type=Path, metavar="ONNX", help=f"save the nodes as this model; default: {where}"
    )


def refusals_of(options: Namespace, output: Path | None) -> Refusals:
    """output: the engine's file; None: there is none."""
    return refusals(
        output,
        options.refused,
        mend=options.mend,
        mend_with=options.mend_with,
        reduce=options.reduce,
        reduce_timeout=options.reduce_timeout,
    )
