// Multi-scale deformable attention from reference points, offsets and logits, forward. Declaration only: needs neither nvcc
// nor TensorRT.
//
// As multiscale_deformable_attention.cuh has it, with the weights softmax(logits) over levels and points together, and the
// pixels, where point p of a level has the reference point p mod G:
//   reference * size - 0.5 + offset                                  for a point (x, y)
//   centre * size - 0.5 + offset / P * extent * size * 0.5           for a box (cx, cy, w, h)
// ("Deformable DETR", section 4.1 and appendix A.4, as its authors' code and mmcv's compute them). Softmax and pixels are
// fp32 whatever T is.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "dtype.hpp"
#include "multiscale_deformable_attention.cuh"

namespace trtsmith {

struct ReferencePointsShape {
    int64_t batch;        // NR: 1 or N
    int64_t levels;       // LR: 1 or L
    int64_t groups;       // G: P is a multiple
    int64_t coordinates;  // C: 2, or 4 for boxes
    int64_t offsetBatch;  // NO, of offsets and logits: N is a multiple, and entry n has those of n / (N / NO)
};

// As MultiscaleDeformableAttentionParams.
struct MultiscaleDeformableAttentionFromOffsetsParams {
    DType type;                   // kFloat32, kFloat16 or kBFloat16
    DType indexType;              // kInt32 or kInt64
    const void* value;            // T [N, S, M, D]
    const void* spatialShapes;    // I [L, 2], (height, width)
    const void* levelStartIndex;  // I [L]
    const void* referencePoints;  // float32 [NR, Lq, LR, G, C], 0 to 1 across the image
    const void* samplingOffsets;  // T [NO, Lq, M, L, P, 2], (x, y)
    const void* attentionLogits;  // T [NO, Lq, M, L, P], before the softmax
    void* output;                 // T [N, Lq, M * D]
};

// Enqueues on `stream`; needs no workspace. A position that is NaN or infinite counts as zero. Logits of -inf have the
// weight zero; a NaN or infinite one, or nothing but -inf, makes NaN of what has a sample inside, as softmax does.
// Returns as multiscaleDeformableAttention does, and cudaErrorInvalidValue for sizes of reference points that do not fit.
cudaError_t multiscaleDeformableAttentionFromOffsets(const MultiscaleDeformableAttentionFromOffsetsParams& params,
                                                     const MultiscaleDeformableAttentionShape& shape,
                                                     const ReferencePointsShape& references, cudaStream_t stream);

}  // namespace trtsmith
