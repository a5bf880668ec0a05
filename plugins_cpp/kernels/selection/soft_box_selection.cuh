// Soft non-maximum suppression (Bodla et al., arXiv 1704.04503) as mmcv computes it. Declaration only: needs neither nvcc nor
// TensorRT.
//
// Method: one block, as every box depends on all that were taken before: it takes the best box that is left, lowers the scores
// of the others, and finds the best of these in the same pass.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"

namespace trtsmith {

enum class Softness { kNaive, kLinear, kGaussian };  // scores are multiplied by 0, 1 - IoU, exp(-IoU^2 / sigma)

// Device pointers, row-major, aligned to their element size; they may be null when there is no box. Outputs must overlap
// nothing.
struct SoftBoxSelectionParams {
    DType type;          // of boxes and scores, float32, float16 or bfloat16
    const void* boxes;   // [boxes, 4]: two opposite corners
    const void* scores;  // [boxes]; a NaN is the score of no candidate
    float overlap;       // intersection over union from which scores are lowered; not of kGaussian
    float sigma;         // of kGaussian
    float least;         // a box drops out whose score falls below
    float offset;        // sides are larger by so much than corners are apart
    Softness softness;
    void* dets;      // [count, 5]: boxes as given, and their lowered scores, the best first
    int64_t* inds;   // [count]: which of the boxes
    int32_t* count;  // scalar
};

// Bytes of device memory that softBoxSelection needs as `workspace`.
size_t softBoxSelectionWorkspace(int64_t boxes);

// Enqueues on `stream`; `workspace` is aligned to 4 bytes. Of equal scores the first box wins. Boxes of which a number is a
// NaN overlap nothing. Returns cudaErrorInvalidValue for a negative number of boxes or 2^31 of them, or a null pointer that is
// needed; otherwise the error of the launches.
cudaError_t softBoxSelection(const SoftBoxSelectionParams& params, int64_t boxes, void* workspace, cudaStream_t stream);

}  // namespace trtsmith
