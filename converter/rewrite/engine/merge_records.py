"""Merges the records of several passes over one model, so that each original node has one."""

from __future__ import annotations

from dataclasses import replace

from trtsmith.converter.rewrite.engine.records import Rewrite


def merged(records: tuple[Rewrite, ...]) -> tuple[Rewrite, ...]:
    """One record for each original node: what a later pass did to the nodes that an earlier one made is told with it."""
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
