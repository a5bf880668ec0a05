"""Finds conflicts between packages: equal names of plugins, operators or aliases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trtsmith.converter.operators.sources import LEAVE_OUT
from trtsmith.importers.opdef import PLUGIN_NAMESPACE, Alias, OpDef
from trtsmith.importers.operator_package import OperatorPackage
from trtsmith.importers.problem import Problem
from trtsmith.importers.registry import OPS, own_alias


def check_clashes(packages: Sequence[OperatorPackage]) -> list[Problem]:
    """Checks each operator against the earlier ones: trtsmith's, then the packages in order."""
    before: list[tuple[str, OpDef]] = [("trtsmith", op) for op in OPS]
    problems: list[Problem] = []
    for package in packages:
        for op in package.operators:
            for whose, other in before:
                problems += _between(package.name, op, whose, other)
            before.append((package.name, op))
    return problems


def _between(whose: str, op: OpDef, whose_other: str, other: OpDef) -> Iterator[Problem]:
    where = f"{PLUGIN_NAMESPACE}::{other.name} of {whose_other}"
    if op.snake_name == other.snake_name:
        yield Problem(
            f"{whose}: {op.name} is the name of another operator",
            where,
            f"a unique name for each plugin in the namespace {PLUGIN_NAMESPACE}, in snake_case too",
            _fix(whose, whose_other, "rename the operator, in its definition and its binding"),
        )
        return
    for name in sorted(op.aten.keys() & other.aten.keys()):
        yield Problem(
            f"{whose}: {op.name} takes PyTorch's aten::{name}, as another operator does",
            where,
            "one operator for each of PyTorch's",
            _fix(whose, whose_other, f"remove {name!r} from aten"),
        )
    for alias in op.aliases:
        for taken in (*other.aliases, own_alias(other)):
            if _both(alias, taken) and taken.when is None:
                domain = next(iter(sorted(set(alias.domains) & set(taken.domains))), "")
                yield Problem(
                    f"{whose}: {op.name} has the alias {domain}::{alias.op_type}, which another operator has",
                    where,
                    "an alias that no earlier operator has, or a `when` that leaves nodes to the other",
                    _fix(whose, whose_other, "remove the alias, or give it another domain"),
                )


def _both(one: Alias, other: Alias) -> bool:
    """Whether a node may be of both aliases."""
    if one.op_type != other.op_type or not set(one.domains) & set(other.domains):
        return False
    (first, last), (other_first, other_last) = one.opsets, other.opsets
    return first <= (other_last or first) and other_first <= (last or other_first)


def _fix(whose: str, whose_other: str, fix: str) -> str:
    if whose.startswith("entry point") or whose_other.startswith("entry point"):
        return f"{fix}; or leave installed packages out with {LEAVE_OUT}"
    return fix if whose_other == "trtsmith" else f"{fix}; or name one of the two packages only"
