// Levels as the device reads them, and sampling positions, for both kernels of multi-scale deformable attention.
#pragma once

#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdint>

#include "bilinear.cuh"

namespace trtsmith {

__device__ inline int64_t loadIndex(const void* indices, int64_t position, bool wide) {
    return wide ? static_cast<int64_t>(__ldg(static_cast<const long long*>(indices) + position))
                : static_cast<int64_t>(__ldg(static_cast<const int*>(indices) + position));
}

// A side that cannot be one makes the level empty.
__device__ inline int32_t levelSide(int64_t side) {
    return side >= 0 && side <= INT32_MAX ? static_cast<int32_t>(side) : 0;
}

// A position on one axis, in pixels: cell + fraction.
struct AxisPosition {
    int32_t cell;    // saturated; 0 for NaN
    float fraction;  // NaN for a location that is NaN or infinite
};

struct SamplePosition {
    AxisPosition x;
    AxisPosition y;
};

// location * size - 0.5, rounded down: its floor is that of the exact number.
__device__ inline float positionBelow(float location, float size) { return __fmaf_rd(location, size, -0.5F); }

// location * size - 0.5 split into cell and fraction. Rounded but once: for fp32 the rounding of the product, up to 4e-6
// pixels at 100, would be the largest error of the operator (relative error 3.0e-6, and 1.1e-7 without it). On a side
// above 2^23 pixels, where fp32 has no halves left, the fraction may be off by one half.
__device__ inline AxisPosition axisPosition(float location, int32_t size) {
    const float scale = static_cast<float>(size);
    const float floor = floorf(positionBelow(location, scale));
    return {__float2int_rd(floor), fmaf(location, scale, -0.5F - floor)};
}

// bilinearCell for a position on a level. Integer tests refuse positions outside, however far; two are refused apart: NaN,
// and -1 to the bit, whose only neighbours inside have the factor 0, which is not without effect on what is not finite.
__device__ inline BilinearCell cellAt(const SamplePosition& position, int32_t height, int32_t width) {
    const AxisPosition x = position.x;  // copies: without them the compiler makes branches of the tests below
    const AxisPosition y = position.y;
    const float upperY = 1.0F - y.fraction;
    const float upperX = 1.0F - x.fraction;
    BilinearCell cell{
        y.cell, x.cell, {upperY * upperX, upperY * x.fraction, y.fraction * upperX, y.fraction * x.fraction}, 0U};
    const bool number = x.fraction + y.fraction == x.fraction + y.fraction;
    const bool edge = (x.cell == -1 && x.fraction == 0.0F) || (y.cell == -1 && y.fraction == 0.0F);
    const bool near = number && !edge;
    const bool top = near && static_cast<uint32_t>(y.cell) < static_cast<uint32_t>(height);
    const bool bottom = near && static_cast<uint32_t>(y.cell) + 1U < static_cast<uint32_t>(height);
    const bool left = static_cast<uint32_t>(x.cell) < static_cast<uint32_t>(width);
    const bool right = static_cast<uint32_t>(x.cell) + 1U < static_cast<uint32_t>(width);
    cell.valid =
        (top && left ? 1U : 0U) | (top && right ? 2U : 0U) | (bottom && left ? 4U : 0U) | (bottom && right ? 8U : 0U);
    return cell;
}

}  // namespace trtsmith
