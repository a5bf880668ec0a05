// Samples of regions of feature maps, pooled into bins, forward: RoI align and its relatives. Declaration only: needs
// neither nvcc nor TensorRT.
//
// A region is cut into outputHeight x outputWidth bins of equal size, and each bin has gridHeight x gridWidth samples at
// the centres of equal parts. A sample is bilinear; a position up to one pixel outside of the map takes the nearest
// pixels of its edge, one farther away is zero and counts. Formula: "Mask R-CNN" (He et al., 2017), section 3, with the
// numerics of torchvision's roi_align, mmcv's roi_align and roi_align_rotated, and mmdeploy's multi-level operators.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"

namespace trtsmith {

inline constexpr int32_t kMaxRegionLevels = 8;
inline constexpr int32_t kMaxRegionSamples = 1024;  // along each side of a bin, where the number is given

enum class RegionBoxes : int32_t {
    kCorners,  // (image, x1, y1, x2, y2)
    kRotated,  // (image, centre x, centre y, width, height, angle)
};

enum class RegionPooling : int32_t {
    kAverage = 0,        // of the samples
    kMaximum = 1,        // the largest sample
    kMaximumCorner = 2,  // the largest of all samples' four corners times their weights: NVIDIA's ROIAlign_TRT
};

struct RegionLevel {
    const void* data;  // T [N, inputChannels, height, width]
    int64_t height;
    int64_t width;  // height * width < 2^31
    float scale;    // pixels of the map for one unit of the regions' coordinates
};

// Device pointers, row-major, aligned to their element size. T is `type`. A tensor without elements may be null. The
// output must not overlap an input.
struct RegionAlignParams {
    DType type;  // kFloat32, kFloat16 or kBFloat16; positions are fp64 and sums fp32 for all three
    RegionLevel levels[kMaxRegionLevels];
    int32_t levelCount;
    const void* regions;  // T [K, 5 or 6], as `boxes` says
    const void* offsets;  // T [K, 2, PH, PW], (x, y) in shares of the region's size times offsetScale; or null
    void* output;         // T [K, C, PH, PW]
    RegionBoxes boxes;
    RegionPooling pooling;
    int32_t samplingRatio;   // samples along each side of a bin; 0 or less: the size of a bin, rounded up
    float pixelOffset;       // taken off scaled coordinates: 0.5 where pixels' centres are at halves
    float leastSize;         // to which a smaller side grows, in pixels of the map; -infinity: none does
    double angleScale;       // radians for one unit of the angle, positive where y turns to x; rotated boxes only
    float growth;            // factor of the regions' size before scaling; 0 or less: none
    bool growthCountsEnds;   // growth of corners that are pixels: size + 1 grows, and 1 is taken off again
    float finestScale;       // size at which a region leaves level 0 is twice this
    float offsetScale;       // of `offsets`
    bool positionSensitive;  // channel c of bin b is input channel c * PH * PW + b
};

struct RegionAlignShape {
    int64_t batch;     // N
    int64_t channels;  // C, of the output
    int64_t regions;   // K
    int64_t outputHeight;
    int64_t outputWidth;
};

// Bytes of workspace: the maps once more, with their channels last. Without it (null) the same results come slower.
size_t regionAlignWorkspace(const RegionAlignParams& params, const RegionAlignShape& shape);

// Enqueues on `stream`. Regions are read on the device and cannot be checked here: whatever they
// hold, nothing outside of the maps is read. The output of a region is zero where its image does not exist, where a
// coordinate is not a finite number, where samplingRatio is 0 and a side is not positive, or its bins would have more than
// 2^24 samples along it.
// Returns cudaErrorInvalidValue for a negative or overflowing size, a wrong type, more than kMaxRegionSamples, or a null
// pointer to a tensor that has elements; otherwise the error of the launch.
cudaError_t regionAlign(const RegionAlignParams& params, const RegionAlignShape& shape, void* workspace,
                        cudaStream_t stream);

}  // namespace trtsmith
