// Tests an element for being different from zero. Its type is known at run time only: one branch, the same for all threads.
#pragma once

#include <cstdint>

#include "dtype.hpp"

namespace trtsmith {

struct IsSet {
    const void* data;
    DType type;

    __device__ bool operator()(int64_t at) const {
        switch (type) {
            case DType::kFloat32:
                return static_cast<const float*>(data)[at] != 0.0F;
            case DType::kFloat16:
            case DType::kBFloat16:  // all bits but the sign
                return (static_cast<const uint16_t*>(data)[at] & 0x7fffU) != 0;
            case DType::kInt32:
                return static_cast<const int32_t*>(data)[at] != 0;
            case DType::kInt64:
                return static_cast<const int64_t*>(data)[at] != 0;
            case DType::kBool:
                return static_cast<const uint8_t*>(data)[at] != 0;
        }
        return false;
    }
};

}  // namespace trtsmith
