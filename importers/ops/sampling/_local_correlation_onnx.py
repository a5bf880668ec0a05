"""Writes the correlation of patches in standard ONNX operators of opset 11."""

from __future__ import annotations

from collections.abc import Sequence

from trtsmith.importers.opdef import Expansion

_AXES_INPUT = 13
"""First opset in which the axes of ReduceSum are an input."""

_SIZES = """
i0 = Constant <value = int64[1] {0}> ()
i1 = Constant <value = int64[1] {1}> ()
i2 = Constant <value = int64[1] {2}> ()
i3 = Constant <value = int64[1] {3}> ()
i4 = Constant <value = int64[1] {4}> ()
unit = Constant <value = float {1}> ()
nought = Constant <value = float {0}> ()
space = Constant <value = int64[2] {2, 3}> ()
rows = Constant <value = int64[1] {2}> ()
zero = Squeeze (i0)
one = Squeeze (i1)
sizes = Shape (first)
n = Slice (sizes, i0, i1)
c = Slice (sizes, i1, i2)
h = Slice (sizes, i2, i3)
w = Slice (sizes, i3, i4)
there_shape = Concat <axis = 0> (i1, i1, h, w)
there = Expand (unit, there_shape)
first_padded = Pad (first, pads)
first_there = Pad (there, pads)
second_padded = Pad (second, far_pads)
second_there = Pad (there, far_pads)
h_room = Add (h, room_h)
w_room = Add (w, room_w)
h_steps = Div (h_room, stride_h)
w_steps = Div (w_room, stride_w)
oh = Add (h_steps, i1)
ow = Add (w_steps, i1)
h_reach = Mul (h_steps, stride_h)
w_reach = Mul (w_steps, stride_w)
h_length = Add (h_reach, i1)
w_length = Add (w_reach, i1)
ow_scalar = Squeeze (ow)
column = Range (zero, ow_scalar, one)
column_start = Mul (column, stride_w)
partner = Add (column_start, moves)
one_shape = Concat <axis = 0> (n, c, oh, i1, ow)
one_there_shape = Concat <axis = 0> (i1, i1, oh, i1, ow)
sum_shape = Concat <axis = 0> (n, oh, patch, ow)
part_shape = Concat <axis = 0> (n, i1, oh, patch, ow)
"""

_TAP = """
start_{t} = Constant <value = int64[2] {{{row}, {column}}}> ()
length_{t} = Concat <axis = 0> (h_length, w_length)
end_{t} = Add (start_{t}, length_{t})
first_slice_{t} = Slice (first_padded, start_{t}, end_{t}, space, strides)
first_there_slice_{t} = Slice (first_there, start_{t}, end_{t}, space, strides)
first_{t} = Reshape (first_slice_{t}, one_shape)
first_there_{t} = Reshape (first_there_slice_{t}, one_there_shape)
shift_{t} = Constant <value = int64[1] {{{column}}}> ()
partner_{t} = Add (partner, shift_{t})
"""

_PRODUCT = """
begin_{p}_{t} = Constant <value = int64[1] {{{row}}}> ()
finish_{p}_{t} = Add (begin_{p}_{t}, h_length)
second_rows_{p}_{t} = Slice (second_padded, begin_{p}_{t}, finish_{p}_{t}, rows, stride_h)
there_rows_{p}_{t} = Slice (second_there, begin_{p}_{t}, finish_{p}_{t}, rows, stride_h)
second_{p}_{t} = Gather <axis = 3> (second_rows_{p}_{t}, partner_{t})
there_{p}_{t} = Gather <axis = 3> (there_rows_{p}_{t}, partner_{t})
both_{p}_{t} = Mul (there_{p}_{t}, first_there_{t})
counts_{p}_{t} = Greater (both_{p}_{t}, nought)
all_products_{p}_{t} = Mul (second_{p}_{t}, first_{t})
products_{p}_{t} = Where (counts_{p}_{t}, all_products_{p}_{t}, nought)
"""


def _numbers(name: str, values: Sequence[int], shape: str = "") -> str:
    listed = ", ".join(map(str, values))
    return f"{name} = Constant <value = int64[{shape or len(values)}] {{{listed}}}> ()"


def expand_local_correlation(expansion: Expansion) -> str:
    """For each row of displacements and each tap: products with all displaced columns at once, summed over channels."""
    f = expansion.fields
    radius, (kernel_h, kernel_w) = f["max_displacement"], f["kernel_size"]
    patch = 2 * radius + 1
    pads = f["padding"]
    far = [pad + radius * step for pad, step in zip(pads, f["dilation_patch"], strict=True)]
    room = [
        2 * pad - dilation * (kernel - 1) - 1
        for pad, dilation, kernel in zip(pads, f["dilation"], f["kernel_size"], strict=True)
    ]
    body = [
        _numbers("pads", [0, 0, *pads] * 2),
        _numbers("far_pads", [0, 0, *far] * 2),
        _numbers("strides", f["stride"]),
        _numbers("patch", [patch]),
        _numbers("moves", [p * f["dilation_patch"][1] for p in range(patch)], f"{patch}, 1"),
        *(_numbers(f"stride_{a}", [f["stride"][i]]) for i, a in enumerate("hw")),
        *(_numbers(f"room_{a}", [room[i]]) for i, a in enumerate("hw")),
        _SIZES,
    ]
    taps = [(i * f["dilation"][0], j * f["dilation"][1]) for i in range(kernel_h) for j in range(kernel_w)]
    for t, (row, column) in enumerate(taps):
        body.append(_TAP.format(t=t, row=row, column=column))
    over_channels = "<axes = [1], keepdims = 0> ({})"
    if expansion.opset >= _AXES_INPUT:
        over_channels = "<keepdims = 0> ({}, i1)"
    for p in range(patch):
        body.append(f"sum_{p}_0 = Expand (nought, sum_shape)")
        for t, (row, _) in enumerate(taps):
            body.append(_PRODUCT.format(p=p, t=t, row=row + p * f["dilation_patch"][0]))
            body.append(f"tap_sum_{p}_{t} = ReduceSum {over_channels.format(f'products_{p}_{t}')}")
            body.append(f"sum_{p}_{t + 1} = Add (sum_{p}_{t}, tap_sum_{p}_{t})")
        body.append(f"part_{p} = Reshape (sum_{p}_{len(taps)}, part_shape)")
    body.append(f"parts = Concat <axis = 1> ({', '.join(f'part_{p}' for p in range(patch))})")
    body.append("output = Transpose <perm = [0, 1, 3, 2, 4]> (parts)")
    return "\n".join(body)
