"""Models that the rule repeated-slices takes: loops over slices as PyTorch's older exporter writes repeat_interleave."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example


def _example(
    name: str, shape: tuple[int, ...], axis: int, before: str, after: str, back: str, repeats: list[int]
) -> Example:
    """before, after, back: sizes of Expand around the number of times, and those of Reshape, as the exporter writes them."""
    return Example(
        name,
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[{"B, " * axis}T, 3] x, int64[T] times) => (float[{"B, " * axis}U, 3] y)
        <int64[1] at = {{0}}, int64 which = {{{axis}}}, bool yes = {{1}}, int64[1] next = {{{axis + 1}}},
         int64[{axis + 1}] before = {{{before}}}, int64[1] after = {{{after}}}, int64[{axis + 2}] back = {{{back}}},
         int64 minus = {{-1}}> {{
            shape = Shape (x)  size = Gather (shape, which)  runs = Unsqueeze (size, at)
            lengths = Shape (times)  ones = ConstantOfShape <value = int64[1] {{1}}> (lengths)
            all_times = SplitToSequence <axis = 0> (times, ones)
            slices = SplitToSequence <axis = {axis}> (x, ones)
            empty = SequenceEmpty <dtype = 1> ()
            parts = Loop (runs, yes, empty) <
                body = b (int64 i, bool c, seq(float[]) so_far) => (bool d, seq(float[]) more) {{
                d = Cast <to = 9> (yes)
                here = SequenceAt (all_times, i)  slice = SequenceAt (slices, i)
                higher = Unsqueeze (slice, next)  sizes = Concat <axis = 0> (before, here, after)
                many = Shape (sizes)  all_ones = ConstantOfShape <value = int64[1] {{1}}> (many)
                unknown = Mul (all_ones, minus)  is_unknown = Equal (sizes, unknown)
                known = Where (is_unknown, all_ones, sizes)  repeated = Expand (higher, known)
                part = Reshape (repeated, back)  more = SequenceInsert (so_far, part)
            }}>
            y = ConcatFromSequence <axis = {axis}> (parts)
        }}""",
        feeds={
            "x": np.arange(np.prod(shape), dtype=np.float32).reshape(shape),
            "times": np.array(repeats, np.int64),
        },
    )


EXAMPLES = {
    "repeated-slices": (
        _example("rows", (5, 3), 0, "1", "3", "-1, 3", [2, 0, 1, 3, 1]),
        _example("a size that Expand has no say in", (2, 3), 0, "-1", "-1", "-1, 3", [1, 4]),
        _example("second axis", (2, 3, 3), 1, "-1, 1", "3", "0, -1, 3", [3, 1, 2]),
        _example("most rows not at all", (3, 3), 0, "1", "3", "-1, 3", [0, 0, 1]),
    )
}
