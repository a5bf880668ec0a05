// What both kernels of multi-scale deformable attention share: levels as the device reads them, and sampling positions.
#pragma once

#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdint>

#include "bilinear.cuh"
#include "convert.cuh"

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

// location * size - 0.5 split into cell and fraction. For fp32 the rounding of the product, up to 4e-6 pixels at 100,
// would be the largest error of the operator (relative error 3.0e-6, and 1.1e-7 without it), so it is added back;
// products of 2-byte locations are exact as long as they matter. On a side above 2^23 pixels, where fp32 has no halves
// left, the fraction may be off by one half.
template <typename T>
__device__ inline AxisPosition axisPosition(float location, int32_t size) {
    const float scale = static_cast<float>(size);
    const float product = location * scale;
    const float floor = floorf(product - 0.5F);
    float fraction = (product - floor) - 0.5F;
    if (sizeof(T) == 4) {
        fraction += fmaf(location, scale, -product);
    }
    return {__float2int_rd(product - 0.5F), fraction};
}

// bilinearCell for a location on a level. Integer tests refuse positions outside, however far; NaN is refused apart.
template <typename T>
__device__ inline BilinearCell locationCell(float locationX, float locationY, int32_t height, int32_t width) {
    const AxisPosition x = axisPosition<T>(locationX, width);
    const AxisPosition y = axisPosition<T>(locationY, height);
    const float upperY = 1.0F - y.fraction;
    const float upperX = 1.0F - x.fraction;
    BilinearCell cell{
        y.cell, x.cell, {upperY * upperX, upperY * x.fraction, y.fraction * upperX, y.fraction * x.fraction}, 0U};
    const bool number = x.fraction + y.fraction == x.fraction + y.fraction;
    const bool top = number && static_cast<uint32_t>(y.cell) < static_cast<uint32_t>(height);
    const bool bottom = number && static_cast<uint32_t>(y.cell) + 1U < static_cast<uint32_t>(height);
    const bool left = static_cast<uint32_t>(x.cell) < static_cast<uint32_t>(width);
    const bool right = static_cast<uint32_t>(x.cell) + 1U < static_cast<uint32_t>(width);
    cell.valid = (top && left ? 1U : 0U) | (top && right ? 2U : 0U) | (bottom && left ? 4U : 0U) |
                 (bottom && right ? 8U : 0U);
    return cell;
}

}  // namespace trtsmith
