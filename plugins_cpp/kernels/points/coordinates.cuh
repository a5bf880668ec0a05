// Coordinates of points in any floating-point type.
#pragma once

#include <cstdint>

#include "kernels/convert.cuh"
#include "kernels/dtype.hpp"
#include "kernels/warp.cuh"

namespace trtsmith {

// Element i as float32. The type is the same for all threads; a kernel reads each coordinate a few times at most.
__device__ inline float elementOf(DType type, const void* data, int64_t i) {
    switch (type) {
        case DType::kFloat16:
            return loadFloat(static_cast<const __half*>(data) + i);
        case DType::kBFloat16:
            return loadFloat(static_cast<const __nv_bfloat16*>(data) + i);
        default:
            return loadFloat(static_cast<const float*>(data) + i);
    }
}

struct Point {
    float x, y, z;
};

__device__ inline float squaredDistance(const Point& a, const Point& b) {
    const float x = a.x - b.x;
    const float y = a.y - b.y;
    const float z = a.z - b.z;
    return fmaf(z, z, fmaf(y, y, x * x));
}

}  // namespace trtsmith
