// A map to each of whose pixels samples of itself are added, at the pixel's own rotated box, forward. Declaration only: needs
// neither nvcc nor TensorRT. Layouts of mmcv's rotated_feature_align.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"

namespace trtsmith {

// Device pointers, row-major, aligned to their element size. T is `type`. A tensor without elements may be null. The output
// must not overlap an input.
struct RotatedFeatureAlignParams {
    DType type;         // kFloat32, kFloat16 or kBFloat16
    const void* map;    // T [batch, channels, height, width]
    const void* boxes;  // T [batch, height, width, 5]: y, x, width, height, angle in radians that turns x to y
    void* output;       // T as the map
    float scale;        // pixels of the map for one unit of the boxes' coordinates
    int32_t points;     // 1: the centre; 5: the corners, too
};

struct RotatedFeatureAlignShape {
    int64_t batch;
    int64_t channels;
    int64_t height;  // of less than 2^31 pixels
    int64_t width;
};

// Bytes of workspace: a map with its channels last.
size_t rotatedFeatureAlignWorkspace(const RotatedFeatureAlignParams& params, const RotatedFeatureAlignShape& shape);

// A sample up to one pixel outside of the map takes its edge; one farther away, or at what is no number, is zero.
//
// cudaErrorInvalidValue: a size below 0 or too large, other points, a null pointer to a tensor that has elements, no
// workspace.
cudaError_t rotatedFeatureAlign(const RotatedFeatureAlignParams& params, const RotatedFeatureAlignShape& shape,
                                void* workspace, cudaStream_t stream);

}  // namespace trtsmith
