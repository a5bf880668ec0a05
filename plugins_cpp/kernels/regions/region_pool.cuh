// RoI pooling by whole pixels, forward. Declaration only: needs neither nvcc nor TensorRT. torchvision's roi_pool and
// ps_roi_pool.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/dtype.hpp"

namespace trtsmith {

// Device pointers, row-major, aligned to their element size. T is `type`. A tensor without elements may be null. The output
// must not overlap an input.
struct RegionPoolParams {
    DType type;           // kFloat32, kFloat16 or kBFloat16
    const void* map;      // T [batch, channels, height, width]
    const void* regions;  // T [regions, 5]: image, x1, y1, x2, y2
    void* output;         // T [regions, channels, outputHeight, outputWidth]; by position, channels / bins
    float scale;          // pixels of the map for one unit of the regions' coordinates
    bool byPosition;      // the average of bin b of channel c, of input channel c * bins + b; else the largest of each
};

struct RegionPoolShape {
    int64_t batch;
    int64_t channels;  // of the map
    int64_t height;
    int64_t width;
    int64_t regions;
    int64_t outputHeight;
    int64_t outputWidth;
};

// Corners are rounded to whole pixels, halves away from zero. Every element is written: a bin without pixels, and a region
// with a corner that is no number or beyond 2^30 pixels, or of an image that is not there, is zero.
//
// cudaErrorInvalidValue: a size below 0 or too large, a null pointer to a tensor that has elements, channels by position
// that the bins do not divide.
cudaError_t regionPool(const RegionPoolParams& params, const RegionPoolShape& shape, cudaStream_t stream);

}  // namespace trtsmith
