// Rotated boxes that overlap no better one, of every image and class. Declaration only: needs neither nvcc nor TensorRT.
//
// The method is that of box_suppression.cuh. Boxes are prepared once: sine, cosine and the circle around each, by which most
// pairs are told apart.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/box_selection.cuh"
#include "kernels/dtype.hpp"

namespace trtsmith {

// Device pointers, row-major, aligned to their element size; they may be null when there is no box. Outputs must overlap
// nothing.
struct RotatedBoxSelectionParams {
    DType type;          // of boxes and scores, float32, float16 or bfloat16
    const void* boxes;   // [batch, boxes, 5]: centre x and y, width, height, angle in radians
    const void* scores;  // [batch, classes, boxes]; a NaN is the score of no candidate
    bool clockwise;      // angles turn x towards y; else y towards x
    float overlap;       // a box drops out whose intersection over union with a kept one is above
    float floor;         // candidates have a score above
    int64_t* selected;   // [count, 3]: image, class, box, in this order but for boxes, of which the best come first
    int32_t* count;      // scalar
};

// Bytes of device memory that rotatedBoxSelection needs as `workspace`; about 32 for each score and each box.
size_t rotatedBoxSelectionWorkspace(const BoxSelectionShape& shape);

// Enqueues on `stream`; `workspace` is aligned to 16 bytes. Of equal scores the first box wins. A box overlaps nothing of
// which a number is not finite or of which width times height is below 1e-14. Returns cudaErrorInvalidValue for a negative
// or overflowing size, 2^31 results or more that there may be, or a null pointer that is needed; otherwise the error of the
// launches.
cudaError_t rotatedBoxSelection(const RotatedBoxSelectionParams& params, const BoxSelectionShape& shape,
                                void* workspace, cudaStream_t stream);

}  // namespace trtsmith
