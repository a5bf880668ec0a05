"""Defines passes and the records that they return. Rules depend on this module; it depends on no rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trtsmith.importers.opdef import Refusal
from trtsmith.importers.problem import Problem

if TYPE_CHECKING:
    import onnx_graphsurgeon as gs

Kinds = Set[tuple[str, str]]
"""The (domain, op_type) of every node of a model."""


@dataclass(frozen=True)
class Rewrite:
    """A node (or the node that ends a pattern) that a pass replaced.

    plugin_node: name of the plugin node that took its place, "" if none did.
    notes:       what the user should know of it, such as casts that were inserted.
    numerics:    sentences, where results may differ from what the operator prescribes; always shown.
    made:        names of the nodes of the rewritten graph that stand for it, if standard nodes do.
    """

    node: str
    op_type: str
    pass_name: str
    what: str
    plugin_node: str = ""
    notes: tuple[str, ...] = ()
    numerics: tuple[str, ...] = ()
    made: tuple[str, ...] = ()


@dataclass(frozen=True)
class Declined:
    """A node that a pass considered and left unchanged, with the value that ruled it out.

    fatal: whether the node cannot reach TensorRT without the pass.
    """

    node: str
    op_type: str
    pass_name: str
    refusal: Refusal
    fatal: bool = True

    def problem(self) -> Problem:
        return Problem(
            what=self.refusal.reason,
            where=f"node {self.node!r} ({self.op_type})",
            expected=self.refusal.expected,
            fix=self.refusal.fix,
        )


Record = Rewrite | Declined


@dataclass(frozen=True)
class Pass:
    """One rewrite of GraphSurgeon graphs and their subgraphs. `apply` edits the graph and returns records.

    takes: by (domain, op_type), the nodes that the pass looks at, one by one and whatever makes what they read; it gets
        them alone, each with a name of its own. None for a pass that reads whole graphs.

    concerns: whether the pass may have business with a model of such nodes. A model that concerns no pass is not brought
        into GraphSurgeon, which is imported for the first that does.
    """

    name: str
    doc: str
    apply: Callable[[gs.Graph], Iterable[Record]]
    concerns: Callable[[Kinds], bool]
    takes: Callable[[str, str], bool] | None = None


def by_sentence(said: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Groups pairs of a node and a sentence by sentence, in order."""
    nodes: dict[str, list[str]] = {}
    for node, sentence in said:
        nodes.setdefault(sentence, []).append(node)
    return nodes


def said_once(nodes: Mapping[str, Sequence[str]]) -> list[str]:
    """Returns one line for each sentence, with its first node and a count of further nodes."""
    more = {sentence: f" and {len(names) - 1} more" if names[1:] else "" for sentence, names in nodes.items()}
    return [f"{names[0]}{more[sentence]}: {sentence}" for sentence, names in nodes.items()]


def merged(records: tuple[Rewrite, ...]) -> tuple[Rewrite, ...]:
    """Merges records, so that each original node has one, which includes what later passes did to its replacements."""
    told: list[Rewrite] = []
    maker: dict[str, int] = {}  # name of a made node: index of its record
    for record in records:
        index = maker.get(record.node)
        if index is None:
            index = len(told)
            told.append(record)
        else:
            first = told[index]
            made = (*(name for name in first.made if name != record.node), *record.made)
            told[index] = replace(
                first,
                pass_name=_joined(", ", first.pass_name, record.pass_name),
                what=_joined("; then ", first.what, record.what),
                notes=tuple(dict.fromkeys((*first.notes, *record.notes))),
                numerics=tuple(dict.fromkeys((*first.numerics, *record.numerics))),
                made=made,
                # A rule may have put standard nodes in the place of a plugin node.
                plugin_node=record.plugin_node if record.node == first.plugin_node else first.plugin_node,
            )
        maker |= dict.fromkeys(record.made, index)
        if record.plugin_node:
            maker[record.plugin_node] = index
    return tuple(told)


def _joined(separator: str, *texts: str) -> str:
    return separator.join(dict.fromkeys(part for text in texts for part in text.split(separator)))
