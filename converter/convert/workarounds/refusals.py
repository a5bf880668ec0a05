"""Data of refused builds: policy, refused graph, mitigation, result."""

from __future__ import annotations

from argparse import BooleanOptionalAction
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar

import onnx

from trtsmith.converter.base.option_values import check_values, is_seconds
from trtsmith.converter.base.options.kinds import Flag
from trtsmith.converter.engine.builder.build_request import Profile
from trtsmith.converter.model.model import Model
from trtsmith.importers.counted import counted

REDUCE_S = 90.0
"""Seconds for finding the nodes, where the user says nothing: of 3,000 nodes it takes 2 to 20 on two cores."""

SUFFIX = ".refused.onnx"

MAY_DIFFER = ("expanded-plugin",)
"""Mitigations that are done only where the user names them: they may change results."""


@dataclass(frozen=True, kw_only=True)
class Refusals:
    """The policy for graphs that TensorRT refuses.

    file: where the nodes are saved that are left in the end; None: nowhere.
    """

    TITLE: ClassVar[str] = "refused graphs"

    mend: Annotated[
        bool,
        Flag(
            "apply a known, exact workaround to refused nodes (default), or only report it",
            action=BooleanOptionalAction,
        ),
    ] = True
    allowed: Annotated[
        tuple[str, ...],
        Flag(
            "also apply this workaround, which may change results; the error names it; may be repeated",
            "NAME",
            keyword="mend_with",
            choices=MAY_DIFFER,
        ),
    ] = ()
    reduce: Annotated[
        bool,
        Flag(
            "search for the nodes that TensorRT refuses (default), or skip the search and all workarounds",
            action=BooleanOptionalAction,
        ),
    ] = True
    reduce_timeout: Annotated[float, Flag(f"time limit of the search; default: {REDUCE_S:g}", "SECONDS")] = (
        REDUCE_S
    )
    file: Annotated[
        Path | None, Flag("save the refused nodes as this model; default: {}", "ONNX", keyword="refused")
    ] = None

    def __post_init__(self) -> None:
        check_values(
            ("--reduce-timeout", self.reduce_timeout, is_seconds),
            *(("--mend-with", name, MAY_DIFFER) for name in self.allowed),
        )

    def beside(self, output: Path | None) -> Refusals:
        """Sets a default file beside the engine. output: the engine; None: no file."""
        if self.file is not None or output is None or not output.name:  # "." is refused as a folder later
            return self
        return replace(self, file=output.with_name(output.name + SUFFIX))


@dataclass(frozen=True)
class Mended:
    """A refusal that a workaround mended. nodes: (name, op_type) of the refused ones. said: TensorRT's message."""

    mitigation: str
    does: str
    nodes: tuple[tuple[str, str], ...]
    said: str

    def warning(self) -> str:
        """Returns the warning for the user."""
        first, *others = (f"{name!r} ({op_type})" for name, op_type in self.nodes)
        more = f" and {counted(len(others), 'other')}" if others else ""
        return f"TensorRT refused the graph because of node {first}{more}; mended by {self.mitigation}: {self.does}"


Profiles = tuple[Mapping[str, Profile], ...]


@dataclass(frozen=True, eq=False)
class RefusedGraph:
    """A refused graph. model: TensorRT's graph, or only some of its nodes. made: values of the nodes on which it fails.

    profiles: of the inputs of this model.
    """

    model: Model
    made: frozenset[str]
    profiles: Profiles = ()

    def concerns(self, node: onnx.NodeProto) -> bool:
        """Tells whether TensorRT fails on this node of the main graph."""
        return not self.made.isdisjoint(node.output)


@dataclass(frozen=True)
class Mitigation:
    """A way to rewrite nodes on which TensorRT fails.

    does:  what becomes of them, as one says it to a user.
    exact: why it means the same; "" where it may not: then the user has to ask for it.
    apply: the whole model with these nodes written so; None where there is nothing to write.
    known: what TensorRT says of it, a pattern, and the operator concerned: then no nodes are looked for.
    """

    name: str
    does: str
    exact: str
    apply: Callable[[RefusedGraph], Model | None]
    known: tuple[str, str] | None = None
