// What the operators that pool regions of feature maps share: checks of their tensors, and the kernel's parameters.
#pragma once

#include <limits>
#include <string>

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

// "" or what does not fit.
template <typename Params>
std::string regionFault(const Params& params, const Tensor& regions, int64_t numbers) {
    if (regions[1] != numbers) {
        return "rois has " + std::to_string(regions[1]) + " numbers for each region; expected " +
               std::to_string(numbers);
    }
    if (params.sampling_ratio > kMaxRegionSamples) {
        return "sampling_ratio is " + std::to_string(params.sampling_ratio) + "; expected at most " +
               std::to_string(kMaxRegionSamples);
    }
    return {};
}

inline std::string mapFault(const Tensor& map) {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    const bool fits = map[2] == 0 || map[3] == 0 || map[2] <= kMost / map[3];
    return fits ? std::string() : "a plane of a feature map must have less than 2^31 pixels";
}

}  // namespace trtsmith
