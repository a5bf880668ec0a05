// Adds samples of any region, one bin a thread: four corners, in as many channels at a time as keep loads in flight.
#pragma once

#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdint>

#include "kernels/convert.cuh"
#include "kernels/regions/region_frame.cuh"

namespace trtsmith {

constexpr int kRegionCellChannels = 8;  // of one thread at a time: as many sums, and four times as many loads in flight

// Where a thread reads the channels of its bin.
template <typename T>
struct RegionLane {
    const T* source;  // input channel of the first output channel
    int64_t stride;   // of the input, from one of its output channels to the next
    int32_t count;    // of its channels
};

// Adds one sample of kRegionCellChannels channels. The four loads of a channel depend on nothing but the cell.
template <typename T, RegionPooling kPooling>
__device__ inline void addRegionSample(const RegionCell cell, const RegionLane<T>& lane, int32_t width,
                                       float (&sums)[kRegionCellChannels]) {
    if (cell.offset < 0) {
        if (kPooling != RegionPooling::kAverage && cell.offset == RegionCell::kOutside) {
#pragma unroll
            for (int j = 0; j < kRegionCellChannels; ++j) {
                sums[j] = fmaxf(sums[j], 0.0F);
            }
        }
        return;
    }
    const float upperY = 1.0F - cell.lowerY;
    const float upperX = 1.0F - cell.lowerX;
    const float weights[4] = {upperY * upperX, upperY * cell.lowerX, cell.lowerY * upperX, cell.lowerY * cell.lowerX};
    const int32_t right = cell.steps & 1;
    const int32_t below = (cell.steps & 2) != 0 ? width : 0;
    const T* corner = lane.source + cell.offset;
    float values[kRegionCellChannels][4];
#pragma unroll
    for (int j = 0; j < kRegionCellChannels; ++j) {
        const bool valid = j < lane.count;
        values[j][0] = loadFloat(corner, valid);
        values[j][1] = loadFloat(corner + right, valid);
        values[j][2] = loadFloat(corner + below, valid);
        values[j][3] = loadFloat(corner + below + right, valid);
        corner += lane.stride;
    }
#pragma unroll
    for (int j = 0; j < kRegionCellChannels; ++j) {
        if (kPooling == RegionPooling::kMaximumCorner) {
            const float upper = fmaxf(weights[0] * values[j][0], weights[1] * values[j][1]);
            const float lower = fmaxf(weights[2] * values[j][2], weights[3] * values[j][3]);
            sums[j] = fmaxf(sums[j], fmaxf(upper, lower));
        } else {
            float sample = kPooling == RegionPooling::kAverage ? sums[j] : 0.0F;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                sample = fmaf(weights[i], values[j][i], sample);
            }
            sums[j] = kPooling == RegionPooling::kAverage ? sample : fmaxf(sums[j], sample);
        }
    }
}

}  // namespace trtsmith
