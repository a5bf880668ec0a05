// Slices of a tensor by a list of positions whose length is known on the device alone. Declaration only: needs neither
// nvcc nor TensorRT.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace trtsmith {

struct GatherSlicesShape {
    int64_t outer;  // product of the dimensions before the axis
    int64_t size;   // of the axis
    int64_t inner;  // product of the dimensions behind it
};

// Device pointers, row-major, aligned to their element size; they may be null when x has no element. The output must not
// overlap an input.
struct GatherSlicesParams {
    size_t elementBytes;    // 1, 2, 4 or 8
    const void* x;          // [outer, size, inner]
    const int64_t* chosen;  // [*count], each from 0 to size - 1
    const int32_t* count;   // scalar, 0 to size
    void* output;           // [outer, *count, inner], packed
};

// Enqueues on `stream`. Returns cudaErrorInvalidValue for a negative or overflowing size, another element size, or a null
// pointer that is needed; otherwise the error of the launch.
cudaError_t gatherSlices(const GatherSlicesParams& params, const GatherSlicesShape& shape, cudaStream_t stream);

}  // namespace trtsmith
