// Element types that kernels take at run time. Kernels know nothing of TensorRT: the binding translates.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trtsmith {

enum class DType : int32_t {
    kFloat32,
    kFloat16,
    kBFloat16,
    kInt32,
    kInt64,
    kBool,
};

constexpr size_t bytesOf(DType type) {
    switch (type) {
        case DType::kInt64:
            return 8;
        case DType::kFloat16:
        case DType::kBFloat16:
            return 2;
        case DType::kBool:
            return 1;
        default:
            return 4;
    }
}

}  // namespace trtsmith
