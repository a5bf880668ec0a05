// Precise RoI pooling, forward: the exact average of a bilinearly interpolated map over each bin. Declaration only: needs
// neither nvcc nor TensorRT. Layouts of mmcv's PrRoIPool.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"

namespace trtsmith {

// Device pointers, row-major, aligned to their element size. T is `type`. A tensor without elements may be null. The output
// must not overlap an input.
struct PreciseRegionPoolParams {
    DType type;           // kFloat32, kFloat16 or kBFloat16
    const void* map;      // T [batch, channels, height, width]
    const void* regions;  // T [regions, 5]: image, x1, y1, x2, y2
    void* output;         // T [regions, channels, outputHeight, outputWidth]
    float scale;          // pixels of the map for one unit of the regions' coordinates
};

struct PreciseRegionPoolShape {
    int64_t batch;
    int64_t channels;
    int64_t height;  // of less than 2^31 pixels
    int64_t width;
    int64_t regions;
    int64_t outputHeight;
    int64_t outputWidth;
};

// Pixels are at whole numbers, and the map is zero outside. Every element is written: a region without a size, with a
// number that is none or infinite, or of an image that is not there, is zero.
//
// cudaErrorInvalidValue: a size below 0 or too large, a null pointer to a tensor that has elements.
cudaError_t preciseRegionPool(const PreciseRegionPoolParams& params, const PreciseRegionPoolShape& shape,
                              cudaStream_t stream);

}  // namespace trtsmith
