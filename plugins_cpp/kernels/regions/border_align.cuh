// The largest of samples along each border of boxes, forward. Declaration only: needs neither nvcc nor TensorRT. Layouts of
// mmcv's border_align.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"

namespace trtsmith {

// Device pointers, row-major, aligned to their element size. T is `type`. A tensor without elements may be null. The output
// must not overlap an input.
struct BorderAlignParams {
    DType type;         // kFloat32, kFloat16 or kBFloat16
    const void* map;    // T [batch, 4 * channels, height, width]: channels of top, left, bottom and right borders
    const void* boxes;  // T [batch, boxes, 4]: x1, y1, x2, y2 in pixels
    void* output;       // T [batch, channels, boxes, 4]
    int32_t steps;      // from one end of a border to the other; one more sample
};

struct BorderAlignShape {
    int64_t batch;
    int64_t channels;  // of a border
    int64_t height;    // of less than 2^31 pixels
    int64_t width;
    int64_t boxes;
};

// Bytes of workspace: a map with its channels last.
size_t borderAlignWorkspace(const BorderAlignParams& params, const BorderAlignShape& shape);

// A sample up to one pixel outside of the map takes its edge; one farther away, or at what is no number, is zero.
//
// cudaErrorInvalidValue: a size below 0 or too large, a null pointer to a tensor that has elements, no workspace.
cudaError_t borderAlign(const BorderAlignParams& params, const BorderAlignShape& shape, void* workspace,
                        cudaStream_t stream);

}  // namespace trtsmith
