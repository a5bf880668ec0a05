"""Removes optionals that are known to hold something, or nothing."""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import (
    NodeRule,
    NodeView,
    Refusal,
    Replacement,
    constant_node,
)
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.rules.sequences.sequence_values import is_sequence


def _holds(node: NodeView) -> tuple[bool, str] | Refusal:
    """Whether the input holds something, and the value that it holds."""
    name = node.input(0)
    while name:
        maker = node.producer_of(name)
        if maker is not None and maker.op_type == "Optional":
            return (True, maker.input[0]) if maker.input and maker.input[0] else (False, "")
        if maker is None or maker.op_type != "Identity":
            break
        name = maker.input[0]
    if not name:
        return False, ""
    type_ = node.type_of(name)
    if type_ is not None and not type_.HasField("optional_type"):
        return True, name
    return Refusal(
        f"whether {name!r} holds anything is known at run time only",
        "an optional that the model itself makes",
        "export the model for one of the two cases, with a tensor in the place of the optional",
    )


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    if node.op_type == "Optional":
        return None if node.used(0) else Replacement([], "unrolled: nothing reads the optional any more")
    if node.op_type == "OptionalGetElement" and not node.used(0):
        return Replacement([], "unrolled: nothing reads it any more")
    found = _holds(node)
    if isinstance(found, Refusal):
        return found
    full, name = found
    if node.op_type == "OptionalHasElement":
        return Replacement([constant_node(node.output(0), np.array(full))], "true" if full else "false")
    if not full:
        return Refusal(
            "the optional holds nothing", "one that holds a tensor", "correct the model: it fails anywhere"
        )
    if is_sequence(node.type_of(name)):
        return None  # who reads the sequence looks through the node
    return Replacement(Writer(node).finish(name), "the tensor that it holds")


OPTIONALS = NodeRule(
    "optionals",
    "optionals that are known become their tensors",
    ("Optional", "OptionalGetElement", "OptionalHasElement"),
    _rewrite,
)
