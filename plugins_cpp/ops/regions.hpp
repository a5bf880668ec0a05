// What the operators that pool regions of feature maps share: the kernel's parameters.
#pragma once

#include <limits>

#include "kernels/regions/region_align.cuh"
#include "ops/binding.hpp"

namespace trtsmith {

// The fields that all of them have, by the same names.
template <typename Params>
RegionAlignParams regionParams(const Params& params, const Tensor& regions, void* output) {
    RegionAlignParams p{};
    p.type = regions.type;
    p.levelCount = 0;
    p.regions = regions.data;
    p.offsets = nullptr;
    p.output = output;
    p.boxes = RegionBoxes::kCorners;
    p.pooling = RegionPooling::kAverage;
    p.samplingRatio = params.sampling_ratio;
    p.pixelOffset = 0.5F;
    p.leastSize = -std::numeric_limits<float>::infinity();
    p.angleScale = 1.0;
    p.growth = 0.0F;
    p.growthCountsEnds = false;
    p.finestScale = 1.0F;
    p.offsetScale = 0.0F;
    p.positionSensitive = false;
    return p;
}

// Radians for one unit of an angle that turns y to x: counter-clockwise as one sees the image.
inline double angleScale(bool clockwise, bool degrees) {
    constexpr double kRadians = 3.14159265358979323846 / 180.0;
    return (clockwise ? -1.0 : 1.0) * (degrees ? kRadians : 1.0);
}

inline void addLevel(RegionAlignParams& p, const Tensor& map, float scale) {
    p.levels[p.levelCount] = {map.data, map[2], map[3], scale};
    ++p.levelCount;
}

template <typename Params>
RegionAlignShape regionShape(const Params& params, const Tensor& map, const Tensor& regions) {
    return {map[0], map[1], regions[0], params.output_height, params.output_width};
}

}  // namespace trtsmith
