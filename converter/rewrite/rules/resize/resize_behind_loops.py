"""Rewrites a Resize behind a recurrent layer, a loop or a branch to a form that TensorRT-RTX builds there.

TensorRT-RTX 1.7.1 has kernels for a Resize of four or five axes, of which the last two, and others but the last but two, get
another length; not for cubic interpolation. Any other Resize it writes as operators of its own, and fails where the value
has sizes that only a run tells, and is made in or behind an LSTM, GRU, RNN, Loop, Scan or If ("insert_point is not in bb").
Axes of one element in front give it a kernel; else gathers and products take its place, which it builds. Behind an If it
builds no Resize at all where the branches give other sizes ("shape[3] is negative", "_Map_base::at"), so that they do so
there, too.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.rules.control_flow.uneven_branches import uneven_results
from trtsmith.converter.rewrite.rules.resize.resize_forms import axis_by_axis
from trtsmith.converter.rewrite.target import Fault

_FAULT = Fault(
    "tensorrt_rtx",
    ("1.7.1",),
    "does not build most forms of Resize in or behind a loop or a branch",
    "engines built of LSTM, GRU, RNN, Loop, Scan and If, each with a Resize behind it",
)

_LOOPS = ("LSTM", "GRU", "RNN", "Loop", "Scan", "If")
_FEWEST = 4
"""Axes for which there are kernels."""


@node_rule("resize-behind-loops", "Resize", "Upsample", faults=(_FAULT,))
def resize_behind_loops_rule(node: NodeView) -> Replacement | Refusal | None:
    """Gives a Resize in or behind a loop, recurrent layer or branch four axes, or rewrites it axis by axis."""
    shape, mode = node.shape(0), node.attributes.get("mode", "nearest")
    if shape is None or None not in shape:
        return None
    more, stretched = _FEWEST - len(shape), len(shape) > 2 and _stretched(node, len(shape) - 3)
    has_kernel = mode != "cubic" and not stretched
    in_loop = not {"Loop", "Scan"}.isdisjoint(node.inside())
    maker = None if in_loop else _loop_ahead(node)
    branches = maker is not None and maker.is_a("If")
    if has_kernel and more in (0, -1) and not (maker is not None and branches and uneven_results(maker)):
        return None
    if maker is None and not in_loop:
        return None
    written = node.op_type == "Resize" and node.opset > 10
    if has_kernel and more > 0 and not (written and branches):
        return _with_axes_in_front(node, more)
    made = axis_by_axis(node) if written else None
    if not isinstance(made, Replacement):
        return made
    return replace(made, notes=(node.because((_FAULT,), "it is written out axis by axis"),))


def _stretched(node: NodeView, axis: int) -> bool:
    """Whether the axis is known to change its length."""
    axes = [a % (node.rank(0) or 1) for a in node.attributes.get("axes") or ()]
    if axes and axis not in axes:
        return False
    scales = _scales(node)
    if scales.size:
        return bool(scales[axes.index(axis) if axes else axis] != 1)
    before, after = (sizes and sizes[axis] for sizes in (node.shape(0), node.output_shape(0)))
    return None not in (before, after) and before != after


def _scales(node: NodeView) -> np.ndarray:
    """The constant scales; empty if there are none."""
    given = node.attributes.get("scales")  # of Upsample before opset 9
    found = node.constant(_scales_at(node)) if given is None else np.array(given)
    return np.zeros(0) if found is None else found


def _scales_at(node: NodeView) -> int:
    return 2 if node.op_type == "Resize" and node.opset > 10 else 1


def _loop_ahead(node: NodeView) -> NodeView | None:
    """The loop, recurrent layer or branch from which the data is computed; None if there is none."""
    names, seen = [node.input(0)], set[str]()
    while names:
        name = names.pop()
        maker = node.maker_of(name)
        if name in seen or maker is None:
            continue
        if maker.is_a(*_LOOPS):
            return maker
        seen.add(name)
        names += maker.inputs
    return None


def _with_axes_in_front(node: NodeView, more: int) -> Replacement:
    w, at = Writer(node), _scales_at(node)
    given = {a.name: node.attributes[a.name] for a in node.proto.attribute}
    if "axes" in given:
        given["axes"] = [axis % (_FEWEST - more) + more for axis in given["axes"]]
    elif "scales" in given:
        given["scales"] = [1.0] * more + list(given["scales"])
    rest = list(w.x[1:])
    for index, ones in ((at, np.ones(more, np.float32)), (3, np.ones(more, np.int64))):
        whole = not given.keys() & {"axes", "scales"} and node.shape(index) != (0,)
        if whole and node.input(index):
            rest[index - 1] = w.Concat(ones, w.x[index], axis=0)
    in_front = list(range(more))
    result = w.write(node.op_type, w.Unsqueeze(w.x[0], axes=in_front), *rest, **given)
    return Replacement(
        w.finish(w.Squeeze(result, axes=in_front)),
        f"{node.op_type} of four axes",
        notes=(node.because((_FAULT,), f"the {node.op_type} gets four axes"),),
    )
