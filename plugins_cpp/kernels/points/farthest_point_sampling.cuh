// Farthest point sampling of clouds (Qi et al., PointNet++, arXiv 1706.02413, 3.2). Declaration only: needs neither nvcc nor
// TensorRT.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"

namespace trtsmith {

// Device pointers, row-major, aligned to their element size. T is `type`. A tensor without elements may be null.
struct FarthestPointSamplingParams {
    DType type;          // kFloat32, kFloat16 or kBFloat16
    const void* points;  // T [batch, points, 3]
    int32_t* indices;    // [batch, samples]
    bool skipOrigin;     // points within 1e-3 (of squared distance) of the origin are passed over
};

struct FarthestPointSamplingShape {
    int64_t batch;
    int64_t points;   // of each cloud
    int64_t samples;  // of each cloud
};

// Bytes that the launch needs on the current device, aligned to 16; 0 for a shape that the launch refuses.
size_t farthestPointSamplingWorkspace(const FarthestPointSamplingShape& shape);

// Point 0 is the first; then always the point whose distance from the nearest of those that were taken is largest, of equals
// the one with the lowest index. A point with a coordinate that is not finite is at distance -1, as is one that is passed over.
//
// cudaErrorInvalidValue: a size below 0 or too large, samples of no points, a null pointer to a tensor that has elements.
cudaError_t farthestPointSampling(const FarthestPointSamplingParams& params, const FarthestPointSamplingShape& shape,
                                  void* workspace, cudaStream_t stream);

}  // namespace trtsmith
