// Division of run-time integers by a divisor known at launch: a multiplication and a shift instead of some 20
// instructions. Method: Granlund and Montgomery, "Division by Invariant Integers using Multiplication" (1994).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace trtsmith {

struct FastDivider {
    uint32_t divisor = 1;
    uint32_t multiplier = 1;
    uint32_t shift = 0;

    FastDivider() = default;

    // 1 <= divisor < 2^31
    explicit FastDivider(int64_t value) : divisor(static_cast<uint32_t>(value)) {
        while ((uint64_t{1} << shift) < divisor) {
            ++shift;
        }
        multiplier = static_cast<uint32_t>(((uint64_t{1} << 32) * ((uint64_t{1} << shift) - divisor)) / divisor + 1);
    }

    // 0 <= value < 2^31
    __device__ int32_t quotient(int32_t value) const {
        const uint32_t n = static_cast<uint32_t>(value);
        return static_cast<int32_t>((__umulhi(n, multiplier) + n) >> shift);
    }
};

}  // namespace trtsmith
