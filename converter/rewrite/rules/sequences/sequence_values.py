"""Finds the contents of a sequence or an optional from the nodes that built it.

TensorRT has tensors only. Most sequences of exported models are static all the same: a list of tensors that were put
together, taken apart and joined again at positions that the model fixes. Such a sequence is a list of value names here.
"""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

import numpy as np
import onnx

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal

_PASSED = ("Identity", "Optional", "OptionalGetElement")
_BUILT = ("SequenceConstruct", "SequenceEmpty")
_CHANGED = ("SequenceInsert", "SequenceErase")


def elements(node: NodeView, name: str) -> list[str] | Refusal:
    """Returns the tensors in the sequence `name`, a value in scope; a Refusal if they are not known."""
    changes: list[onnx.NodeProto] = []
    maker = node.producer_of(name)
    while maker is not None and maker.op_type not in _BUILT:
        if maker.op_type in _CHANGED:
            changes.append(maker)
        elif maker.op_type not in _PASSED or not maker.input:
            break
        name = maker.input[0]
        maker = node.producer_of(name)
    if maker is None or maker.op_type not in _BUILT:
        what = f"it comes from {maker.op_type}" if maker is not None else "it is fed at run time"
        return Refusal(
            f"the contents of the sequence {name!r} are known only at run time: {what}",
            "a sequence of a number of tensors that the model fixes",
            "export the model with fixed lengths, or with tensors instead of sequences",
        )
    held = list(maker.input)
    for change in reversed(changes):
        insert = change.op_type == "SequenceInsert"
        given = list(change.input[2 if insert else 1 :])
        place = position(node, given[0] if given else "", len(held), last=len(held) - (not insert))
        if isinstance(place, Refusal):
            return place
        if insert:
            held.insert(place, change.input[1])
        else:
            del held[place]
    return held


def position(node: NodeView, name: str, count: int, last: int) -> int | Refusal:
    """Returns the index of a position in a sequence of `count` tensors; `last` if none is given.

    A negative one counts from the end: -1 is before the last tensor for who inserts, too, as in Python's list.insert.
    """
    if not name:
        place = last
    else:
        value = node.constant_of(name)
        if value is None:
            return Refusal(
                f"the position {name!r} is computed at run time",
                "a constant position",
                f"freeze it: --freeze {quote(name)}=VALUE",
            )
        place = int(value.reshape(-1)[0])
    if not -count <= place <= last:
        fix = "correct the position where the model is exported"
        return Refusal(f"position {place} of a sequence of {count} tensors", f"{-count} to {last}", fix)
    return place + count if place < 0 else place


def is_sequence(type_: onnx.TypeProto | None) -> bool:
    """Tells whether the type is a sequence, or an optional sequence."""
    if type_ is not None and type_.HasField("optional_type"):
        return is_sequence(type_.optional_type.elem_type)
    return type_ is not None and type_.HasField("sequence_type")


def known_size(node: NodeView, index: int, axis: int) -> int | None:
    shape = node.shape(index)
    return shape[axis] if shape is not None and -len(shape) <= axis < len(shape) else None


def split_sizes(total: int | None, given: np.ndarray | None, most: int) -> Sequence[int] | None:
    """Returns sizes of SplitToSequence's parts: listed, equal chunks with a smaller last one, or ones. None if unknown.

    Of more than `most` chunks only the number is right.
    """
    if given is not None and given.ndim:
        return [int(size) for size in given]
    if total is None:
        return None
    starts = range(0, total, 1 if given is None else int(given))
    return starts if len(starts) > most else [min(starts.step, total - start) for start in starts]
