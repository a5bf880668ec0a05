// Elements as unsigned integers of the same order. NaNs are equal and above everything, -0.0 equals 0.0.
#pragma once

#include <cstdint>

#include "dtype.hpp"

namespace trtsmith {

// bits: of a float whose sign is the bit `sign` and whose infinity is `infinity`.
__device__ inline uint32_t orderOfFloat(uint32_t bits, uint32_t sign, uint32_t infinity) {
    const uint32_t magnitude = bits & (sign - 1);
    if (magnitude > infinity) {
        return 2 * sign - 1;
    }
    return (bits & sign) != 0 ? sign - magnitude : sign + magnitude;
}

__device__ inline uint64_t orderKey(DType type, const void* data, int64_t at) {
    switch (type) {
        case DType::kFloat32:
            return orderOfFloat(static_cast<const uint32_t*>(data)[at], 0x80000000U, 0x7f800000U);
        case DType::kFloat16:
            return orderOfFloat(static_cast<const uint16_t*>(data)[at], 0x8000U, 0x7c00U);
        case DType::kBFloat16:
            return orderOfFloat(static_cast<const uint16_t*>(data)[at], 0x8000U, 0x7f80U);
        case DType::kInt32:
            return static_cast<const uint32_t*>(data)[at] ^ 0x80000000U;
        case DType::kInt64:
            return static_cast<const uint64_t*>(data)[at] ^ 0x8000000000000000U;
        case DType::kBool:
            return static_cast<const uint8_t*>(data)[at];
    }
    return 0;
}

}  // namespace trtsmith
