// Windows of correlation volumes around places, linear between pixels, as in RAFT-Stereo and DROID-SLAM.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/dtype.hpp"

namespace trtsmith {

struct CorrelationLookupParams {
    DType type;           // of volume and output
    const void* volume;   // [batch, height, width, rows, columns]
    const float* places;  // [batch, axes, height, width]: x and y, of which y may be missing where it is not read
    void* output;         // [batch, across, down, height, width], the window of each pixel
};

constexpr int64_t kMostCorrelationRadius = 32;

struct CorrelationLookupShape {
    int64_t batch;
    int64_t height;
    int64_t width;
    int64_t rows;  // at most 2^23, as are columns
    int64_t columns;
    int64_t axes;
    int64_t radius;  // across is 2 * radius + 1
    bool flat;       // down is 1, and all places are in row 0; else down is as across
};

cudaError_t correlationLookup(const CorrelationLookupParams& params, const CorrelationLookupShape& shape,
                              cudaStream_t stream);

}  // namespace trtsmith
