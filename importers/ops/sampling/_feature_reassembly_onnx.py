"""Writes the content-aware reassembly of features in standard ONNX operators of opset 11."""

from __future__ import annotations

from trtsmith.importers.opdef import Expansion


def expand_feature_reassembly(expansion: Expansion) -> str:
    """Adds the map, moved by each tap, times the masks of the tap."""
    kernel, groups, scale = (expansion.fields[name] for name in ("kernel_size", "groups", "scale_factor"))
    radius = kernel // 2
    body = [
        f"""
i0 = Constant <value = int64[1] {{0}}> ()
i1 = Constant <value = int64[1] {{1}}> ()
i2 = Constant <value = int64[1] {{2}}> ()
i4 = Constant <value = int64[1] {{4}}> ()
groups = Constant <value = int64[1] {{{groups}}}> ()
scale = Constant <value = int64[1] {{{scale}}}> ()
taps = Constant <value = int64[1] {{{kernel * kernel}}}> ()
axes = Constant <value = int64[2] {{2, 3}}> ()
pads = Constant <value = int64[8] {{0, 0, {radius}, {radius}, 0, 0, {radius}, {radius}}}> ()
unit = Constant <value = float {{1}}> ()
nought = Constant <value = float {{0}}> ()
sizes = Shape (x)
n = Slice (sizes, i0, i1)
c = Slice (sizes, i1, i2)
plane = Slice (sizes, i2, i4)
i3 = Constant <value = int64[1] {{3}}> ()
h = Slice (sizes, i2, i3)
w = Slice (sizes, i3, i4)
each = Div (c, groups)
map_shape = Concat <axis = 0> (n, groups, each, h, i1, w, i1)
there_shape = Concat <axis = 0> (i1, i1, h, w)
there_map_shape = Concat <axis = 0> (i1, i1, i1, h, i1, w, i1)
masks_shape = Concat <axis = 0> (n, groups, taps, h, scale, w, scale)
mask_shape = Concat <axis = 0> (n, groups, i1, h, scale, w, scale)
sum_shape = Concat <axis = 0> (n, groups, each, h, scale, w, scale)
padded = Pad (x, pads)
there = Expand (unit, there_shape)
there_padded = Pad (there, pads)
kernels = Reshape (masks, masks_shape)
sum_0 = Expand (nought, sum_shape)
"""
    ]
    for tap in range(kernel * kernel):
        body.append(f"""
start_{tap} = Constant <value = int64[2] {{{tap // kernel}, {tap % kernel}}}> ()
end_{tap} = Add (start_{tap}, plane)
moved_{tap} = Slice (padded, start_{tap}, end_{tap}, axes)
moved_there_{tap} = Slice (there_padded, start_{tap}, end_{tap}, axes)
map_{tap} = Reshape (moved_{tap}, map_shape)
there_{tap} = Reshape (moved_there_{tap}, there_map_shape)
is_there_{tap} = Greater (there_{tap}, nought)
first_{tap} = Constant <value = int64[1] {{{tap}}}> ()
last_{tap} = Constant <value = int64[1] {{{tap + 1}}}> ()
kernel_{tap} = Slice (kernels, first_{tap}, last_{tap}, i2)
mask_{tap} = Reshape (kernel_{tap}, mask_shape)
weight_{tap} = Where (is_there_{tap}, mask_{tap}, nought)
product_{tap} = Mul (map_{tap}, weight_{tap})
sum_{tap + 1} = Add (sum_{tap}, product_{tap})
""")
    body.append(f"""
out_h = Mul (h, scale)
out_w = Mul (w, scale)
output_shape = Concat <axis = 0> (n, c, out_h, out_w)
output = Reshape (sum_{kernel * kernel}, output_shape)
""")
    return "\n".join(body)
