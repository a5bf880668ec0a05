// Element types that kernels take at run time. Kernels know nothing of TensorRT: the binding translates.
#pragma once

#include <cstdint>

namespace trtsmith {

enum class DType : int32_t {
    kFloat32,
    kFloat16,
    kBFloat16,
    kInt32,
    kInt64,
};

}  // namespace trtsmith
