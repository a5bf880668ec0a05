"""TopK of more elements than TensorRT's layer gives (3,840), in rounds: the best so many, then the best of the rest.

The rest is gathered in its order, so that the lower index still wins between equals, by scattering what was not chosen
to its position among those; what was chosen goes to one place behind them, which is cut off.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.opset_forms import slice_
from trtsmith.converter.rewrite.engine.statement_writer import statements

LARGEST = 3840
"""TensorRT-RTX 1.7.1: "K exceeds the maximum value allowed (3840)"."""

ROUNDS = 32
"""Of 14 nodes each; 122,880 elements."""


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    k = node.constant(1) if node.opset >= 10 else np.array(node.attributes.get("k", 0))
    rank = node.rank(0)
    if k is None or int(k.reshape(-1)[0]) <= LARGEST or not rank:
        return None
    count = int(k.reshape(-1)[0])
    if count > LARGEST * ROUNDS or node.opset < 11:
        return Refusal(
            f"{count:,} of the elements of {node.input(0)!r} are wanted, in opset {node.opset}",
            f"at most {LARGEST * ROUNDS:,}, from opset 11 on",
            "sort outside of the engine, or convert the model to a newer opset",
        )
    axis = int(node.attributes.get("axis", -1)) % rank
    parts = [LARGEST] * (count // LARGEST) + [count % LARGEST] * bool(count % LARGEST)
    order = ", ".join(
        f"{name} = {node.attributes[name]}" for name in ("largest", "sorted") if node.given(name)
    )
    lines = [_numbered(axis, rank, node.opset)]
    for number in range(len(parts)):
        lines.append(_round(number, axis, order, last=number == len(parts) - 1, opset=node.opset))
    values = ", ".join(f"v{i}" for i in range(len(parts)))
    indices = ", ".join(f"i{i}" for i in range(len(parts)))
    lines.append(f"y0 = Concat <axis = {axis}> ({values})" if node.used(0) else "")
    lines.append(f"y1 = Concat <axis = {axis}> ({indices})" if node.used(1) else "")
    constants = {f"k{i}": np.array([part]) for i, part in enumerate(parts)}
    numbers = {"zero": 0, "one": 1, "axis": axis}
    constants |= {name: np.array(value, np.int64) for name, value in numbers.items()}
    return Replacement(statements(node, "\n".join(lines), **constants), f"{len(parts)} rounds of TopK")


def _numbered(axis: int, rank: int, opset: int) -> str:
    """The elements of round 0 and their numbers along the axis."""
    ones = ", ".join("-1" if i == axis else "1" for i in range(rank))
    return f"""
        shape = Shape (x0)
        length = Gather <axis = 0> (shape, axis)
        count = Range (zero, length, one)
        along = Constant <value = int64[{rank}] {{{ones}}}> ()
        column = Reshape (count, along)
        numbers_0 = Expand (column, shape)
        data_0 = Identity (x0)
    """


def _round(number: int, axis: int, order: str, *, last: bool, opset: int) -> str:
    at, data, numbers = f"r{number}", f"data_{number}", f"numbers_{number}"
    attributes = f"axis = {axis}{', ' if order else ''}{order}"
    text = f"""
        v{number}, {at}_where = TopK <{attributes}> ({data}, k{number})
        i{number} = GatherElements <axis = {axis}> ({numbers}, {at}_where)
    """
    if last:
        return text
    end = -LARGEST
    return f"""
        {text}
        {at}_ones_shape = Shape ({at}_where)
        {at}_ones = ConstantOfShape <value = int64[1] {{1}}> ({at}_ones_shape)
        {at}_shape = Shape ({data})
        {at}_zeros = ConstantOfShape <value = int64[1] {{0}}> ({at}_shape)
        {at}_chosen = ScatterElements <axis = {axis}> ({at}_zeros, {at}_where, {at}_ones)
        {at}_free = Sub (one, {at}_chosen)
        {at}_position = CumSum <exclusive = 1> ({at}_free, axis)
        {at}_length = Gather <axis = 0> ({at}_shape, axis)
        {at}_behind = Sub ({at}_length, k{number})
        {at}_is_chosen = Equal ({at}_chosen, one)
        {at}_target = Where ({at}_is_chosen, {at}_behind, {at}_position)
        {at}_data = ScatterElements <axis = {axis}> ({data}, {at}_target, {data})
        {at}_numbers = ScatterElements <axis = {axis}> ({numbers}, {at}_target, {numbers})
        {slice_(f"data_{number + 1}", f"{at}_data", [0], [end], [axis], opset)}
        {slice_(f"numbers_{number + 1}", f"{at}_numbers", [0], [end], [axis], opset)}
    """


LARGE_TOP_K = NodeRule(
    "large-top-k",
    "TopK of more elements than TensorRT's layer gives",
    ("TopK",),
    _rewrite,
)
