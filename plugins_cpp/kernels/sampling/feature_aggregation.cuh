// Weighted sums of bilinear samples of cameras' feature maps, as in Sparse4D.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/dtype.hpp"

namespace trtsmith {

struct FeatureAggregationParams {
    DType type;            // of features, weights and output
    DType indexType;       // of sizes and starts: kInt32 or kInt64
    const void* features;  // [batch, rows, channels]
    const void* sizes;     // [cameras, levels, 2], (height, width)
    const void* starts;  // [cameras, levels], first row of each map; one that is not within the rows counts as nothing
    // [batch, anchors, points, cameras, 2], (x, y) in the image, from 0 to 1; or key points [batch, anchors, points, 3]
    const float* places;
    const void* weights;       // [batch, anchors, points, cameras, levels, groups]
    const float* projections;  // [batch, cameras, 4, 4], of key points into pixels, or null
    const float* imageSizes;   // [batch, cameras, 2], (width, height), of key points alone
    void* output;              // [batch, anchors, channels]
};

constexpr int64_t kMostAggregationLevels = int64_t{1} << 20;

struct FeatureAggregationShape {
    int64_t batch;
    int64_t rows;  // less than 2^31, as are batch * anchors, and points * cameras * levels
    int64_t channels;
    int64_t anchors;
    int64_t points;
    int64_t cameras;
    int64_t levels;
    int64_t groups;  // divides channels
};

cudaError_t featureAggregation(const FeatureAggregationParams& params, const FeatureAggregationShape& shape,
                               cudaStream_t stream);

}  // namespace trtsmith
