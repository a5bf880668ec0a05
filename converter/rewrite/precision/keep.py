"""Finds the nodes of --keep-fp32: by name, by pattern, or by operator."""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.rewrite.engine.records import Rewrite
from trtsmith.importers.problem import Problem

ASKED = "--keep-fp32 {}"


@dataclass(frozen=True)
class Kept:
    """A node that stays in float32, and the reason."""

    node: str
    op_type: str
    reason: str


def kept_by_user(
    wanted: Sequence[str], nodes: Iterable[tuple[str, str]], rewrites: Iterable[Rewrite] = ()
) -> dict[str, str]:
    """Returns the flag that keeps each node that the user named, by node name.

    nodes:    (name, operator, with its domain where it has one) of the graph that TensorRT gets.
    rewrites: what nodes of the model became, so that their names and operators may be used too; constants, of some.
    UsageError lists every flag that names nothing.
    """
    if not wanted:
        return {}
    own = list(nodes)
    known: list[tuple[str, str, tuple[str, ...]]] = [(name, kind, (name,)) for name, kind in own]
    known += [(r.node, r.op_type, r.made or tuple(filter(None, (r.plugin_node,)))) for r in rewrites]
    names = [name for name, _, _ in known]
    kinds = {kind for _, kind, _ in known}
    kept: dict[str, str] = {}
    problems = []
    for text in wanted:
        pattern = re.compile(fnmatch.translate(text))
        found = [
            places
            for name, kind, places in known
            if name == text or kind == text or kind.rpartition("::")[2] == text or pattern.match(name)
        ]
        for name in chain.from_iterable(found):
            kept.setdefault(name, ASKED.format(text))
        if not found:
            plain = {one.lower(): one for one in [*names[:10000], *kinds]}
            near = difflib.get_close_matches(re.sub(r"[*?]", "", text).lower(), plain, n=1, cutoff=0.5)
            fix = f"did you mean {plain[near[0]]!r}? " if near else ""
            problems.append(
                Problem(
                    f"no node has the name or the operator {text!r}",
                    ASKED.format(text),
                    "a node's name, a pattern such as '/decoder/*', or an operator such as Softmax",
                    fix + "`trtsmith check -v` lists nodes and operators",
                )
            )
    if problems:
        raise UsageError(problems)
    return kept
