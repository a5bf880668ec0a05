"""Draws a changed model: the model, and the changes to it."""

from __future__ import annotations

import random
from collections.abc import Sequence

import onnx
from google.protobuf.message import DecodeError

from fuzzing.byte_changes import changed_bytes
from fuzzing.graph_changes import GRAPH_CHANGES
from fuzzing.message_changes import change_message

BYTES = 0.12
"""Share of the models whose bytes are changed: most of these are no protobuf messages any more, which is soon said."""


def changed_model(data: bytes, others: Sequence[bytes], draw: random.Random) -> bytes:
    """The model after one to four changes. others: models to take parts from."""
    if draw.random() < BYTES:
        return changed_bytes(data, draw)
    try:
        model = onnx.ModelProto.FromString(data)
    except DecodeError:  # a model that was found worth keeping, with changed bytes
        return changed_bytes(data, draw)
    try:
        for _ in range(draw.choice((1, 1, 1, 2, 2, 3, 4))):
            if draw.random() < 0.5:
                change_message(model, draw)
            else:
                other = onnx.ModelProto.FromString(draw.choice(others))
                draw.choice(GRAPH_CHANGES)(model, other, draw)
        return bytes(model.SerializePartialToString(deterministic=True))
    except (DecodeError, ValueError):  # graphs in graphs that protobuf gives up on; names that are not UTF-8
        return changed_bytes(data, draw)
