"""Removes static sequences and optionals: readers take the tensors inside, until nothing reads the sequence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from shlex import quote

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import (
    NodeView,
    Refusal,
    Replacement,
    constant_node,
    node_rule,
)
from trtsmith.converter.rewrite.engine.refusing import unrefused
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.sequences.sequence_values import (
    elements,
    is_sequence,
    known_size,
    position,
    split_sizes,
)


@node_rule("sequence-map", "SequenceMap")
def sequence_map_rule(node: NodeView) -> Replacement | Refusal | None:
    """Unrolls SequenceMap over static sequences.

    What is no sequence is the same each time.
    """
    first = unrefused(elements(node, node.input(0)))
    columns = [first]
    for index in range(1, len(node.inputs)):
        several = is_sequence(node.type_proto(index))
        name = node.input(index)
        columns.append(unrefused(elements(node, name)) if several else [name] * len(first))
    if len({len(column) for column in columns}) > 1:
        fix = "give sequences of the same length"
        return Refusal(f"sequences of {', '.join(str(len(c)) for c in columns)} tensors", "one length", fix)
    w = Writer(node)
    results: list[list[Value]] = [[] for _ in node.outputs]
    for row in zip(*columns, strict=True):
        outputs = w.inline(node.graph("body"), [w.value(name) for name in row])
        for column, output in zip(results, outputs, strict=True):
            column.append(output)
    made = [w.write("SequenceConstruct" if c else "SequenceEmpty", *c) for c in results]
    return Replacement(w.finish(*made), f"its body {len(first)} times")


def _holds(node: NodeView) -> tuple[bool, str] | Refusal:
    """Whether the optional input has a value, and the name of that value."""
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
        f"whether the optional {name!r} has a value is known only at run time",
        "an optional that a node of the model makes",
        "export the model for one of the two cases, with a tensor instead of the optional",
    )


@node_rule("optionals", "Optional", "OptionalGetElement", "OptionalHasElement")
def optionals_rule(node: NodeView) -> Replacement | Refusal | None:
    """Replaces known optionals by their tensors."""
    if node.op_type == "Optional":
        return None if node.used(0) else Replacement([], "unrolled: nothing reads the optional any more")
    if node.op_type == "OptionalGetElement" and not node.used(0):
        return Replacement([], "unrolled: nothing reads it any more")
    full, name = unrefused(_holds(node))
    if node.op_type == "OptionalHasElement":
        return Replacement([constant_node(node.output(0), np.array(full))], "true" if full else "false")
    if not full:
        return Refusal(
            "the optional has no value", "one that holds a tensor", "correct the model: no runtime can run it"
        )
    if is_sequence(node.type_of(name)):
        return None  # who reads the sequence looks through the node
    return Replacement(Writer(node).finish(name), "the tensor that it holds")


_MOST_PARTS = 4096
"""TensorRT builds thousands of slices, slowly; more are a mistake in the model."""

Result = Replacement | Refusal | None


def _at(node: NodeView) -> Result:
    held = unrefused(elements(node, node.input(0)))
    place = unrefused(position(node, node.input(1), len(held), len(held) - 1))
    return Replacement(Writer(node).finish(held[place]), "the tensor at that position")


def _length(node: NodeView) -> Result:
    held = unrefused(elements(node, node.input(0)))
    return Replacement(
        [constant_node(node.output(0), np.array(len(held), np.int64))], "the number of its tensors"
    )


def _concat(node: NodeView) -> Result:
    held = unrefused(elements(node, node.input(0)))
    if not held:
        fix = "export the model so that something is joined"
        return Refusal("the sequence is empty", "at least one tensor", fix)
    w, axis = Writer(node), node.attributes["axis"]
    parts = [w.value(name) for name in held]
    if node.attributes.get("new_axis"):
        parts = [w.Unsqueeze(part, axes=[axis]) for part in parts]
    return Replacement(w.finish(w.Concat(*parts, axis=axis)), "Concat of its tensors")


def _split(node: NodeView) -> Result:
    axis = node.attributes.get("axis", 0)
    given = node.constant(1)
    if node.input(1) and given is None:
        fix = f"freeze it: --freeze {quote(node.input(1))}=VALUES"
        return Refusal(f"the split {node.input(1)!r} is computed at run time", "a constant", fix)
    sizes = split_sizes(known_size(node, 0, axis), given, _MOST_PARTS)
    if sizes is None:
        return node.unknown(0, f"the size in dimension {axis}")
    if len(sizes) > _MOST_PARTS:
        fix = "export the model without sequences"
        return Refusal(f"a sequence of {len(sizes):,} tensors", f"at most {_MOST_PARTS:,}", fix)
    w = Writer(node)
    parts = w.split(w.x[0], sizes, axis)
    if not node.input(1) and not node.attributes.get("keepdims", 1):
        parts = [w.Squeeze(part, axes=[axis]) for part in parts]
    return Replacement(w.finish(w.SequenceConstruct(*parts)), "Split")


def _built(node: NodeView) -> Result:
    """Removes a sequence that nothing reads any more; refuses any other."""
    if not node.used(0):
        return Replacement([], "unrolled: nothing reads the sequence any more")
    return Refusal(
        f"the sequence {node.output(0)!r} is an output of the model, or read by a node that cannot be unrolled",
        "tensors",
        "export the model with tensors instead of sequences, in its outputs, too",
    )


_BODIES: Mapping[str, Callable[[NodeView], Result]] = {
    "ConcatFromSequence": _concat,
    "SequenceAt": _at,
    "SequenceConstruct": _built,
    "SequenceEmpty": _built,
    "SequenceErase": _built,
    "SequenceInsert": _built,
    "SequenceLength": _length,
    "SplitToSequence": _split,
}


@node_rule("sequences", *_BODIES)
def sequences_rule(node: NodeView) -> Result:
    """Replaces static sequences by their tensors."""
    return _BODIES[node.op_type](node)
