// Multi-scale deformable attention, forward. Declaration only: needs neither nvcc nor TensorRT.
//
// Formula: "Deformable DETR" (Zhu et al., 2021), equation 3, with the numerics of mmcv's MultiScaleDeformableAttention:
//   output[n, q, m*D + d] = sum over l, p of weights[n, q, m, l, p] * sample(value of level l, head m, channel d)
// The sample is bilinear at the pixel (x * width - 0.5, y * height - 0.5) (align_corners = False), zero outside, where
// each of the four neighbours counts only if it is inside the level. A position at or beyond -1 has none, even where one
// would have the factor 0: what is not finite there has no effect.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "dtype.hpp"

namespace trtsmith {

struct MultiscaleDeformableAttentionShape {
    int64_t batch;     // N
    int64_t keys;      // S, rows of value: all levels together
    int64_t heads;     // M
    int64_t channels;  // D, per head
    int64_t queries;   // Lq
    int64_t levels;    // L
    int64_t points;    // P, per level
};

// Device pointers, row-major, aligned to their element size. T is `type`, I is `indexType`. A tensor without elements
// may be null. The output must not overlap an input.
struct MultiscaleDeformableAttentionParams {
    DType type;                     // kFloat32, kFloat16 or kBFloat16; sums are fp32 for all three
    DType indexType;                // kInt32 or kInt64
    const void* value;              // T [N, S, M, D]
    const void* spatialShapes;      // I [L, 2], (height, width)
    const void* levelStartIndex;    // I [L], the first row of each level in S; levels may be stored in any order
    const void* samplingLocations;  // T [N, Lq, M, L, P, 2], (x, y), 0 to 1 across a level; any value is safe
    const void* attentionWeights;   // T [N, Lq, M, L, P], after the softmax
    void* output;                   // T [N, Lq, M * D]
};

// Enqueues on `stream`; needs no workspace. Shapes and starts are read on the device and cannot be checked here:
// whatever they hold, a neighbour whose row falls outside [0, S), or whose level has a side outside [0, 2^31), counts
// as zero. A NaN or infinite location counts as zero too. With no level, point or key the output is zero.
// Returns cudaErrorInvalidValue for a negative or overflowing size, a wrong type or a null pointer to a tensor that has
// elements; otherwise the error of the launch.
cudaError_t multiscaleDeformableAttention(const MultiscaleDeformableAttentionParams& params,
                                          const MultiscaleDeformableAttentionShape& shape, cudaStream_t stream);

}  // namespace trtsmith
