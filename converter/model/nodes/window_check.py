"""Checks that attributes of sliding windows have a number for every axis."""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from trtsmith.importers.problem import Problem

_FIX = "correct the node where the model is exported"
_POSITIVE = ("kernel_shape", "strides", "dilations", "group")
_PER_AXIS = {"kernel_shape": 1, "strides": 1, "dilations": 1, "pads": 2, "output_padding": 1}
"""Numbers of each attribute for an axis."""


def check_windows(node: onnx.NodeProto, where: str) -> Iterator[Problem]:
    """Problems of convolutions and poolings: of nodes with a kernel, strides or dilations."""
    given = {a.name: a for a in node.attribute if not a.ref_attr_name}
    lists = {name: list(given[name].ints) for name in _PER_AXIS if name in given}
    if not {"kernel_shape", "strides", "dilations"} & lists.keys():
        return
    axes = {name: len(values) / _PER_AXIS[name] for name, values in lists.items() if values}
    first = next(iter(axes), "")
    for name, count in axes.items():
        if count != axes[first]:
            what = f"The attribute {name!r} is {lists[name][:16]}."
            expected = f"numbers for as many axes as {first!r} has, {lists[first][:16]}"
            yield Problem(what, where, expected, _FIX)
    for name in _POSITIVE:
        values = lists.get(name) or ([given[name].i] if name == "group" and name in given else [])
        if any(not 0 < value < 1 << 31 for value in values):
            yield Problem(
                f"The attribute {name!r} is {values[:16]}.", where, "positive numbers of 32 bits", _FIX
            )
