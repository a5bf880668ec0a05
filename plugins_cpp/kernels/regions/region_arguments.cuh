// What the kernels of regions are launched with, and what each of their blocks works out first.
#pragma once

#include "kernels/convert.cuh"
#include "kernels/regions/region_frame.cuh"

namespace trtsmith {

constexpr int kRegionThreads = 256;

struct RegionArguments {
    RegionAlignParams params;
    RegionAlignShape shape;
    int64_t bins;           // of a region
    int32_t tileBins;       // of a tile
    int32_t slots;          // channels of a tile that are computed at once, one a thread
    int32_t sliceChannels;  // of a slice
    RegionFrame* frames;    // of the regions, where they are worked out beforehand
    int64_t tiles;
    int64_t pieces;  // regions * tiles * slices, regions innermost: blocks side by side read the same channels
};

// The cells of `count` samples of each bin of the tile, beginning with sample `first`: [sample][bin], so that threads side
// by side read words side by side.
template <typename T>
__device__ inline void fillCells(const RegionArguments& a, const RegionFrame& frame, int64_t region, int64_t firstBin,
                                 int32_t bins, int64_t first, int32_t count, RegionCell* cells) {
    const T* offsets = static_cast<const T*>(a.params.offsets);
    for (int32_t item = static_cast<int32_t>(threadIdx.x); item < bins * count;
         item += static_cast<int32_t>(blockDim.x)) {
        const int32_t sample = item / bins;
        const int64_t bin = firstBin + (item - sample * bins);
        const int64_t row = bin / a.shape.outputWidth;
        double shiftY = 0.0;
        double shiftX = 0.0;
        if (offsets != nullptr) {
            const T* offset = offsets + region * 2 * a.bins + bin;
            shiftX = static_cast<double>(a.params.offsetScale) * frame.sizeX * loadFloat(offset);
            shiftY = static_cast<double>(a.params.offsetScale) * frame.sizeY * loadFloat(offset + a.bins);
        }
        cells[item] = regionSample(frame, row, bin - row * a.shape.outputWidth, first + sample, shiftY, shiftX);
    }
}

template <typename T>
__device__ inline RegionFrame frameOf(const RegionArguments& a, int64_t region) {
    const int32_t numbers = a.params.boxes == RegionBoxes::kRotated ? 6 : 5;
    const T* source = static_cast<const T*>(a.params.regions) + region * numbers;
    float box[6];
    for (int32_t i = 0; i < 6; ++i) {
        box[i] = loadFloat(source + (i < numbers ? i : 0));
    }
    return regionFrame(a.params, a.shape, box);
}

}  // namespace trtsmith
