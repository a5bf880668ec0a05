"""Reduces a model that shows a finding, as long as it still shows it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import onnx
from google.protobuf.message import DecodeError

from fuzzing.message_changes import messages_of

_REPEATED = (
    ("FunctionProto", ("node",)),
    ("GraphProto", ("node", "output", "input", "initializer", "value_info")),
    ("ModelProto", ("functions", "metadata_props", "opset_import")),
    ("NodeProto", ("attribute", "input", "output")),
)
"""What is tried to be left out, outermost first."""


def smaller_model(data: bytes, shows: Callable[[bytes], bool], seconds: float) -> bytes:
    """A minimal model: no single part can be left out. shows: whether a model still shows the finding."""
    end = time.monotonic() + seconds
    try:
        onnx.ModelProto.FromString(data)
    except DecodeError:
        return data
    again = True
    while again:
        again = False
        for smaller in _smaller(data):
            if time.monotonic() > end:
                return data
            if len(smaller) < len(data) and shows(smaller):
                data, again = smaller, True
                break
    return data


def _smaller(data: bytes) -> Iterator[bytes]:
    """The model without halves of lists, then without single elements."""
    model = onnx.ModelProto.FromString(data)
    if model.graph.ListFields():
        model.graph.doc_string = ""
    for kind, names in _REPEATED:
        count = len(messages_of(model).get(kind, ()))
        for index in range(count):
            for name in names:
                yield from _shorter(model, kind, index, name)


def _shorter(model: onnx.ModelProto, kind: str, index: int, name: str) -> Iterator[bytes]:
    length = len(getattr(messages_of(model)[kind][index], name))
    cuts = [slice(0, length // 2), slice(length // 2, length)] if length > 3 else []
    cuts += [slice(place, place + 1) for place in range(length)]
    for cut in cuts:
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        values: Any = getattr(messages_of(copy)[kind][index], name)
        del values[cut]
        try:
            yield copy.SerializePartialToString(deterministic=True)
        except ValueError:
            return
