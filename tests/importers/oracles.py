"""Oracles in float64 numpy from the papers' formulas, without code of the definitions.

Bilinear interpolation is written as both papers define it, a sum over all pixels q of
max(0, 1 - |q_y - p_y|) * max(0, 1 - |q_x - p_x|) * x(q), so that borders need no rule of their own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def tent(positions: np.ndarray, size: int) -> np.ndarray:
    """[..., size]: the share of every pixel of a row in each position."""
    return np.maximum(0.0, 1.0 - np.abs(positions[..., None] - np.arange(size)))


def deformable_convolution(
    x: np.ndarray,
    offset: np.ndarray,
    weight: np.ndarray,
    mask: np.ndarray | None = None,
    bias: np.ndarray | None = None,
    *,
    stride: Sequence[int] = (1, 1),
    top_left: Sequence[int] = (0, 0),
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
    offset_groups: int = 1,
) -> np.ndarray:
    """arXiv 1811.11168, equation 1: y(p) = sum over taps k of w_k * x(p + p_k + dp_k) * dm_k."""
    x, offset, weight = (a.astype(np.float64) for a in (x, offset, weight))
    out_h, out_w = offset.shape[2:]
    per_output, per_offset = weight.shape[0] // groups, x.shape[1] // offset_groups
    taps = weight.shape[2] * weight.shape[3]
    output = np.zeros((x.shape[0], weight.shape[0], out_h, out_w))
    rows, columns = np.meshgrid(np.arange(out_h), np.arange(out_w), indexing="ij")
    for o in range(weight.shape[0]):
        for depth in range(weight.shape[1]):
            channel = (o // per_output) * weight.shape[1] + depth
            group = channel // per_offset
            for k in range(taps):
                i, j = divmod(k, weight.shape[3])
                plane = 2 * (group * taps + k)
                y = rows * stride[0] - top_left[0] + i * dilation[0] + offset[:, plane]
                z = columns * stride[1] - top_left[1] + j * dilation[1] + offset[:, plane + 1]
                sample = np.einsum(
                    "nabh,nabw,nhw->nab", tent(y, x.shape[2]), tent(z, x.shape[3]), x[:, channel]
                )
                if mask is not None:
                    sample = sample * mask[:, group * taps + k].astype(np.float64)
                output[:, o] += weight[o, depth, i, j] * sample
    return output if bias is None else output + bias.astype(np.float64)[:, None, None]


def deformable_attention(
    value: np.ndarray,
    spatial_shapes: np.ndarray,
    level_start_index: np.ndarray,
    sampling_locations: np.ndarray,
    attention_weights: np.ndarray,
) -> np.ndarray:
    """arXiv 2010.04159, equation 3, [N, Lq, M, D]; locations are 0 to 1 from border to border of a level."""
    value, locations, weights = (a.astype(np.float64) for a in (value, sampling_locations, attention_weights))
    batch, _, heads, channels = value.shape
    output = np.zeros((batch, locations.shape[1], heads, channels))
    for level, (height, width) in enumerate(spatial_shapes.tolist()):
        start = int(level_start_index[level])
        image = value[:, start : start + height * width].reshape(batch, height, width, heads, channels)
        across = tent(locations[:, :, :, level, :, 0] * width - 0.5, width)
        down = tent(locations[:, :, :, level, :, 1] * height - 0.5, height)
        output += np.einsum("nqmph,nqmpw,nqmp,nhwmd->nqmd", down, across, weights[:, :, :, level], image)
    return output
