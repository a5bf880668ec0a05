// Boxes that overlap no better one: ONNX's NonMaxSuppression. Declaration only: needs neither nvcc nor TensorRT.
//
// The method is that of kernels/selection/box_suppression.cuh. All arithmetic is that of float32, operation by operation as
// onnxruntime does it, so that both decide alike.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace trtsmith {

struct BoxSelectionShape {
    int64_t batch;
    int64_t classes;
    int64_t boxes;  // below 2^31
    int64_t most;   // boxes for each image and class, at most: a bound for memory
};

// Device pointers, row-major, aligned to their element size; they may be null when there is no box. Outputs must overlap
// nothing.
struct BoxSelectionParams {
    bool centers;             // boxes are [x centre, y centre, width, height]; else two opposite corners [y, x, y, x]
    const float* boxes;       // [batch, boxes, 4]
    const float* scores;      // [batch, classes, boxes]; a NaN is the score of no candidate
    const int64_t* maxBoxes;  // [1]: boxes for each image and class; `most` limits it, below 0 means 0
    const float* overlap;     // [1]: a box drops out whose intersection over union with a kept one is above
    const float* floor;       // [1]: candidates have a score above; null: all are candidates
    int64_t* selected;  // [count, 3]: image, class, box, in this order but for boxes, of which the best come first
    int32_t* count;     // scalar
};

// Bytes of device memory that boxSelection needs as `workspace`; about 32 for each score.
size_t boxSelectionWorkspace(const BoxSelectionShape& shape);

// Enqueues on `stream`; `workspace` is aligned to 16 bytes. Of equal scores the first box wins; boxes without an area
// overlap nothing. Returns cudaErrorInvalidValue for a negative or overflowing size, 2^31 results or more that there may
// be, or a null pointer that is needed; otherwise the error of the launches.
cudaError_t boxSelection(const BoxSelectionParams& params, const BoxSelectionShape& shape, void* workspace,
                         cudaStream_t stream);

}  // namespace trtsmith
