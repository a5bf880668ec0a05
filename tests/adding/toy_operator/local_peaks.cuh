// Positions at which a signal is above its neighbours. Declaration only: needs neither nvcc nor TensorRT.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "dtype.hpp"

namespace trtsmith {

// Device pointers; `least` may be null. Outputs must overlap nothing.
struct LocalPeaksParams {
    DType type;          // float
    bool plateaus;       // whether equal neighbours do not count
    const void* x;       // [n]
    const void* least;   // [1]
    int64_t* positions;  // [count], with room for n
    int32_t* count;      // scalar
};

// Bytes of device memory that localPeaks needs as `workspace`.
size_t localPeaksWorkspace(int64_t n);

// Enqueues on `stream`. Returns cudaErrorInvalidValue for a type that is not a float, a negative size, 2^31 samples or
// more; otherwise the error of the launches.
cudaError_t localPeaks(const LocalPeaksParams& params, int64_t n, void* workspace, cudaStream_t stream);

}  // namespace trtsmith
