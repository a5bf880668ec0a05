// Positions at which a tensor is not zero: ONNX's NonZero. Declaration only: needs neither nvcc nor TensorRT.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "dtype.hpp"

namespace trtsmith {

inline constexpr int32_t kNonZeroMaxRank = 8;

struct NonZeroShape {
    int32_t rank;  // 1 to 8
    int64_t sizes[kNonZeroMaxRank];
};

// Device pointers, row-major, aligned to their element size; x may be null when it has no element, and `positions` when
// nothing is to be written. Outputs must overlap nothing.
struct NonZeroParams {
    DType type;     // any
    const void* x;  // [sizes...]
    int64_t*
        positions;   // [rank, count], packed: row r begins at r * count. Room for count = the number of elements of x
    int32_t* count;  // scalar
};

// Bytes of device memory that nonZero needs as `workspace`; 0 also for a shape that nonZero refuses.
size_t nonZeroWorkspace(const NonZeroShape& shape);

// Enqueues on `stream`: coordinates of the elements that are not zero, in row-major order, as ONNX's NonZero gives them.
// A NaN is not zero, and -0.0 is. `workspace` is aligned to 8 bytes.
// Returns cudaErrorInvalidValue for a rank, a negative or overflowing size, 2^31 elements or more, or a null pointer that is
// needed; otherwise the error of the launches.
cudaError_t nonZero(const NonZeroParams& params, const NonZeroShape& shape, void* workspace, cudaStream_t stream);

}  // namespace trtsmith
