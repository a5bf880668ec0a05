"""Reads what is to be done where TensorRT refuses a model: --no-reduce, --mend and their kin."""

from __future__ import annotations

from argparse import BooleanOptionalAction, Namespace
from pathlib import Path
from typing import Any

from trtsmith.converter.cli.arguments import positive_seconds
from trtsmith.converter.convert.mending.building import Refusals
from trtsmith.converter.convert.mending.mitigations import MITIGATIONS
from trtsmith.converter.engine.reduction.reduce import LIMIT_S


def add_refusals(parser: Any, where: str) -> None:
    """where: the nodes are saved when --refused names no place."""
    group = parser.add_argument_group("where TensorRT refuses the graph")
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
        choices=[one.name for one in MITIGATIONS if not one.exact],
        metavar="NAME",
        help="also in a way that may change results; a message names it; may be repeated",
    )
    group.add_argument(
        "--no-reduce",
        action="store_true",
        help="do not look for the nodes; --no-mend is then implied",
    )
    group.add_argument(
        "--reduce-timeout",
        type=positive_seconds,
        default=LIMIT_S,
        metavar="SECONDS",
        help=f"look for the nodes so long; default: {LIMIT_S:g}",
    )
    group.add_argument(
        "--refused", type=Path, metavar="ONNX", help=f"save the nodes as this model; default: {where}"
    )


def refusals_of(options: Namespace, default: Path | None) -> Refusals:
    """default: where the nodes are saved; None: nowhere."""
    return Refusals(
        reduce_s=None if options.no_reduce else options.reduce_timeout,
        file=options.refused or default,
        mend=options.mend,
        allowed=tuple(options.mend_with),
    )
