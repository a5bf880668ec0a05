"""The cache of keys and values of onnxruntime's GroupQueryAttention, as ONNX statements."""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeView
from trtsmith.converter.rewrite.engine.opset_forms import ints, unsqueeze
from trtsmith.converter.rewrite.rules.contrib.attention_forms import counted, length
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import number


def places(node: NodeView) -> str:
    """Where things are in the cache, per row: `before` (tokens that were there), `own` (positions of the new), `slots`."""
    past = length("room", "x3", 2) if node.input(3) else ints("room", [0], scalar=True)
    return f"""
        {ints("zero", [0], scalar=True)}
        {ints("one", [1], scalar=True)}
        {ints("no_dims", [])}
        {ints("one_column", [-1, 1])}
        {length("new", "query", 2)}
        {past}
        total_wide = Cast <to = 7> (x6)
        total = Reshape (total_wide, no_dims)
        slot_count = Max (total, room)
        {counted("slots", "slot_count")}
        {counted("steps", "new")}
        last = Cast <to = 7> (x5)
        last_column = Reshape (last, one_column)
        count = Add (last_column, one)
        grown = Sub (count, new)
        is_prompt = Equal (new, total)
        before = Where (is_prompt, zero, grown)
        own = Add (before, steps)
    """


def cached(node: NodeView, result: str, new: str, index: int, keys: int, size: int, dtype: str) -> str:
    """The past, then the new values, then zeros, gathered from all three put in a row."""
    parts = [f"x{index}"] if node.input(index) else []
    return f"""
        {result}_sizes = Shape ({new})
        {ints(f"{result}_first", [0])}
        {result}_batch = Gather ({result}_sizes, {result}_first)
        {ints(f"{result}_rest", [keys, 1, size])}
        {result}_zero_shape = Concat <axis = 0> ({result}_batch, {result}_rest)
        {number(f"{result}_nought", 0.0, dtype)}
        {result}_zeros = Expand ({result}_nought, {result}_zero_shape)
        {result}_all = Concat <axis = 2> ({", ".join([*parts, new, f"{result}_zeros"])})
        {result}_after = Add (before, new)
        {result}_shift = Sub (room, before)
        {result}_moved = Add (slots, {result}_shift)
        {result}_end = Add (room, new)
        {result}_is_new = Less (slots, {result}_after)
        {result}_behind = Where ({result}_is_new, {result}_moved, {result}_end)
        {result}_is_past = Less (slots, before)
        {result}_index = Where ({result}_is_past, slots, {result}_behind)
        {unsqueeze(f"{result}_planes", f"{result}_index", [1, 3], node.opset)}
        {unsqueeze(f"{result}_slot_count", "slot_count", [0], node.opset)}
        {ints(f"{result}_heads", [keys])}
        {ints(f"{result}_width", [size])}
        {result}_shape = Concat <axis = 0> ({result}_batch, {result}_heads, {result}_slot_count, {result}_width)
        {result}_indices = Expand ({result}_planes, {result}_shape)
        {result} = GatherElements <axis = 2> ({result}_all, {result}_indices)
    """
