// The order in which elements ascend. Declaration only: needs neither nvcc nor TensorRT.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"

namespace trtsmith {

// Device pointers, aligned to their element size; they may be null when there is no element. They must not overlap.
struct AscendingOrderParams {
    DType type;      // any but kBool
    const void* x;   // [size]
    int64_t* order;  // [size]: the positions of the elements, the smallest element's first
};

// Bytes of device memory that ascendingOrder needs as `workspace`: 32 for each element.
size_t ascendingOrderWorkspace(int64_t size);

// Enqueues on `stream`; `workspace` is aligned to 16 bytes. Equal elements keep their order; NaNs are equal to each other
// and come last, and -0.0 equals 0.0. Returns cudaErrorInvalidValue for a negative or overflowing size, or a null pointer
// that is needed; otherwise the error of the launches.
cudaError_t ascendingOrder(const AscendingOrderParams& params, int64_t size, void* workspace, cudaStream_t stream);

}  // namespace trtsmith
