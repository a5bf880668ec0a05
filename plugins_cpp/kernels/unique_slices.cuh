// The different slices of a tensor along an axis: ONNX's Unique. Declaration only: needs neither nvcc nor TensorRT.
//
// Method: slices are sorted by their elements in row-major order, equal ones by their positions; where a slice differs
// from the one before it, a group begins.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "dtype.hpp"
#include "gather_slices.cuh"

namespace trtsmith {

// Device pointers, row-major, aligned to their element size; they may be null when there is no element. Outputs must
// overlap nothing, and have room for count = the size of the axis.
struct UniqueSlicesParams {
    DType type;        // any but kBool
    bool sorted;       // groups in the order of their slices, smallest first; else in that of their first positions
    const void* x;     // [outer, size, inner]
    void* output;      // [outer, count, inner], packed: of each group its first slice
    int64_t* first;    // [count]: the smallest position of each group
    int64_t* inverse;  // [size]: the group of each slice
    int64_t* counts;   // [count]: the number of slices of each group
    int32_t* count;    // scalar
};

// Bytes of device memory that uniqueSlices needs as `workspace`: about 64 for each slice.
size_t uniqueSlicesWorkspace(const GatherSlicesShape& shape);

// Enqueues on `stream`; `workspace` is aligned to 16 bytes. NaNs are equal to each other and come after all numbers, as in
// numpy; -0.0 equals 0.0. Returns cudaErrorInvalidValue for a negative or overflowing size, 2^31 slices or more, or a null
// pointer that is needed; otherwise the error of the launches.
cudaError_t uniqueSlices(const UniqueSlicesParams& params, const GatherSlicesShape& shape, void* workspace,
                         cudaStream_t stream);

}  // namespace trtsmith
