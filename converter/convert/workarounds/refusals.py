"""Says what is to be done where TensorRT refuses a graph, and holds such a graph, a way to mend it, and what was done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx

from trtsmith.converter.engine.build.build_request import Profile
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.option_values import check_values, is_seconds

REDUCE_S = 90.0
"""Seconds for finding the nodes, where the user says nothing: of 3,000 nodes it takes 2 to 20 on two cores."""

SUFFIX = ".refused.onnx"

MAY_DIFFER = ("expanded-plugin",)
"""Mitigations that are done only where the user names them: they may change results."""


@dataclass(frozen=True)
class Refusals:
    """What is done where TensorRT refuses a graph.

    reduce_s: seconds for finding the nodes, of all refusals of a model; None: they are not looked for.
    file:     where the nodes are saved that are left in the end; None: nowhere.
    mend:     whether what helps and means the same is done. allowed: of MAY_DIFFER, those that are done as well.
    """

    reduce_s: float | None = REDUCE_S
    file: Path | None = None
    mend: bool = True
    allowed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_values(
            ("--reduce-timeout", self.reduce_s, is_seconds),
            *(("--mend-with", name, MAY_DIFFER) for name in self.allowed),
        )


@dataclass(frozen=True)
class Mended:
    """A refusal that was mended. nodes: (name, op_type) of those that TensorRT refused. said: why, in its words."""

    mitigation: str
    does: str
    nodes: tuple[tuple[str, str], ...]
    said: str

    def warning(self) -> str:
        """For the user."""
        first, *others = (f"{name!r} ({op_type})" for name, op_type in self.nodes)
        more = f" and {len(others)} other{'s' * (len(others) > 1)}" if others else ""
        return f"TensorRT refused the graph because of node {first}{more}; mended by {self.mitigation}: {self.does}"


def refusals(
    output: Path | None,
    file: Path | None,
    *,
    mend: bool,
    mend_with: Iterable[str],
    reduce: bool,
    reduce_timeout: float,
) -> Refusals:
    """From what a user says. output: the engine's file, beside which the nodes are saved if `file` names no place."""
    beside = None if output is None else output.with_name(output.name + SUFFIX)
    return Refusals(reduce_timeout if reduce else None, file or beside, mend, tuple(mend_with))


Profiles = tuple[Mapping[str, Profile], ...]


@dataclass(frozen=True, eq=False)
class RefusedGraph:
    """model: the graph that TensorRT gets, or nodes of it alone. made: values that the nodes make which it fails on.

    profiles: of the inputs of this model.
    """

    model: Model
    made: frozenset[str]
    profiles: Profiles = ()

    def concerns(self, node: onnx.NodeProto) -> bool:
        """Whether the node of the main graph is one of those that it fails on."""
        return not self.made.isdisjoint(node.output)


@dataclass(frozen=True)
class Mitigation:
    """One way to write nodes on which TensorRT fails.

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
