// The slices of a tensor along an axis at which a condition holds: ONNX's Compress. Declaration only: needs neither nvcc
// nor TensorRT.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "gather_slices.cuh"

namespace trtsmith {

// Device pointers, row-major, aligned to their element size; they may be null when there is no element. Outputs must
// overlap nothing.
struct SelectedSlicesParams {
    size_t elementBytes;    // 1, 2, 4 or 8
    const void* x;          // [outer, size, inner]
    const bool* condition;  // [length]; slices behind the last condition are not selected, conditions behind the last
    int64_t length;         //           slice are ignored
    void* output;           // [outer, count, inner], packed; room for count = the smaller of size and length
    int32_t* count;         // scalar
};

// Bytes of device memory that selectedSlices needs as `workspace`.
size_t selectedSlicesWorkspace(const GatherSlicesShape& shape, int64_t length);

// Enqueues on `stream`; `workspace` is aligned to 8 bytes. Returns cudaErrorInvalidValue for a negative or overflowing
// size, 2^31 slices or more that may be selected, another element size, or a null pointer that is needed; otherwise the
// error of the launches.
cudaError_t selectedSlices(const SelectedSlicesParams& params, const GatherSlicesShape& shape, void* workspace,
                           cudaStream_t stream);

}  // namespace trtsmith
