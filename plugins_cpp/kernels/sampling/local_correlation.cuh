// Correlation of patches of two maps, forward. Declaration only: needs neither nvcc nor TensorRT.
//
// Formula: Dosovitskiy et al., "FlowNet" (arXiv 1504.06852), equation 1, with the layouts and the fields of mmcv's
// correlation_cuda.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"

namespace trtsmith {

// No padding, no reach of a kernel and no displacement is farther.
inline constexpr int64_t kMaxCorrelationReach = int64_t{1} << 29;

// Device pointers, row-major, aligned to their element size. T is `type`. A tensor without elements may be null. The
// output must not overlap an input.
struct LocalCorrelationParams {
    DType type;          // kFloat32, kFloat16 or kBFloat16; sums are fp32 for all three
    const void* first;   // T [N, C, H, W]
    const void* second;  // T [N, C, H, W]
    void* output;        // T [N, patch, patch, Ho, Wo], patch = 2 * radius + 1
};

struct LocalCorrelationShape {
    int64_t batch;
    int64_t channels;
    int64_t height;  // less than 2^31, as the width
    int64_t width;
    int64_t outHeight;
    int64_t outWidth;
    int64_t radius;  // steps of displacements to each side
    int64_t kernelHeight;
    int64_t kernelWidth;
    int64_t strideHeight;
    int64_t strideWidth;
    int64_t paddingTop;
    int64_t paddingLeft;
    int64_t dilationHeight;
    int64_t dilationWidth;
    int64_t stepHeight;  // pixels of a step of displacement
    int64_t stepWidth;
};

// Bytes of workspace: both maps with their channels last, where they are turned first.
size_t localCorrelationWorkspace(DType type, const LocalCorrelationShape& shape);

// A pair of pixels of which one lies outside counts as nothing, whatever the other one is.
//
// cudaErrorInvalidValue for sizes that do not fit together or are too large, a null pointer to a tensor that has elements,
// or no workspace where some is needed.
cudaError_t localCorrelation(const LocalCorrelationParams& params, const LocalCorrelationShape& shape, void* workspace,
                             cudaStream_t stream);

}  // namespace trtsmith
