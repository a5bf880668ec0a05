// Averages of regions that are not turned and whose bins are not moved, with few samples: sums over y and over x apart.
//
// A sample's weight is a product of one of its row and one of its column. A warp therefore reads, for each row of samples,
// the pixels of all columns at once: lanes side by side are columns side by side, in two lines of memory or so, where lanes
// that are bins would read from one line for each row of bins. Rows are summed first, by each lane for its own column, and
// then the columns of a bin by shuffles.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/convert.cuh"
#include "kernels/regions/region_frame.cuh"

namespace trtsmith {

constexpr int kRegionWarp = 32;
constexpr int kRegionRowChannels = 4;  // of a warp at a time: twice as many loads in flight

// One row of samples: the pixels above and below it. 16 bytes, one load.
struct alignas(16) RegionRow {
    int32_t offset;  // of the upper one's row; -1: outside
    int32_t step;    // from there to the lower one's
    float upper;     // weight of the upper one
    float lower;
};

// Columns of samples: each has two, for the pixels to the left and to the right.
struct RegionColumn {
    int32_t offset;
    float weight;
    bool valid;
};

// Lanes for one bin: a power of two, for shuffles.
__device__ inline int32_t lanesOfRegionBin(int32_t samples) {
    int32_t lanes = 2;
    while (lanes < 2 * samples) {
        lanes *= 2;
    }
    return lanes;
}

// Whether the rows fit into shared memory, and the columns of a bin into a warp.
__device__ inline bool rowsFit(const RegionFrame& frame, int64_t outputHeight, int32_t mostRows) {
    return !frame.empty && 2 * int64_t{frame.mostX} <= kRegionWarp && outputHeight * frame.mostY <= mostRows;
}

__device__ inline RegionRow regionRow(const RegionFrame& frame, int64_t bin, int32_t sample) {
    const double corner = frame.startY + static_cast<double>(bin) * frame.binY;
    const double number = firstSample(frame.lowY, frame.highY, corner, frame.stepY, frame.gridY, frame.mostY) + sample;
    const RegionPlace place = regionPlace(frame.originY + (corner + (number + 0.5) * frame.stepY), frame.height);
    if (number >= frame.gridY || place.low < 0) {
        return {-1, 0, 0.0F, 0.0F};
    }
    return {place.low * frame.width, place.next ? frame.width : 0, 1.0F - place.upper, place.upper};
}

__device__ inline RegionColumn regionColumn(const RegionFrame& frame, int64_t bin, int32_t sample, bool right) {
    const double corner = frame.startX + static_cast<double>(bin) * frame.binX;
    const double number = firstSample(frame.lowX, frame.highX, corner, frame.stepX, frame.gridX, frame.mostX) + sample;
    const RegionPlace place = regionPlace(frame.originX + (corner + (number + 0.5) * frame.stepX), frame.width);
    if (number >= frame.gridX || place.low < 0) {
        return {0, 0.0F, false};
    }
    return {place.low + (right && place.next ? 1 : 0), right ? place.upper : 1.0F - place.upper, true};
}

// kRegionRowChannels channels, `stride` elements of the input apart and `channels` of them there, of one tile of columns. source:
// the first channel's plane; target: its outputs of the region, of which the channels are `targetStride` apart.
template <typename T>
struct RegionRows {
    const T* source;
    int64_t stride;
    T* target;
    int64_t targetStride;
    int32_t channels;
};

// outputWidth: bins side by side, of which this lane's is `bin`, if `writes`. scale: 1 / samples of a bin.
template <typename T>
__device__ inline void poolRows(const RegionRows<T>& task, const RegionRow* rows, int32_t samples, int64_t outputHeight,
                                int64_t outputWidth, const RegionColumn& column, int32_t lanes, int64_t bin,
                                bool writes, float scale) {
    for (int64_t row = 0; row < outputHeight; ++row) {
        float sums[kRegionRowChannels];
#pragma unroll
        for (int j = 0; j < kRegionRowChannels; ++j) {
            sums[j] = 0.0F;
        }
        for (int32_t sample = 0; sample < samples; ++sample) {
            const RegionRow place = *rows++;
            if (place.offset < 0) {
                continue;
            }
            const T* pixel = task.source + place.offset + column.offset;
            float values[kRegionRowChannels][2];
#pragma unroll
            for (int j = 0; j < kRegionRowChannels; ++j) {
                const bool valid = column.valid && j < task.channels;
                values[j][0] = loadFloat(pixel, valid);
                values[j][1] = loadFloat(pixel + place.step, valid);
                pixel += task.stride;
            }
#pragma unroll
            for (int j = 0; j < kRegionRowChannels; ++j) {
                sums[j] = fmaf(place.upper, values[j][0], fmaf(place.lower, values[j][1], sums[j]));
            }
        }
        T* target = task.target + row * outputWidth + bin;
#pragma unroll
        for (int j = 0; j < kRegionRowChannels; ++j) {
            float sum = sums[j] * column.weight;
            for (int32_t distance = 1; distance < lanes; distance *= 2) {
                sum += __shfl_xor_sync(0xFFFFFFFFU, sum, distance);
            }
            if (writes && j < task.channels) {
                target[j * task.targetStride] = fromFloat<T>(sum * scale);
            }
        }
    }
}

// The channels [first, first + channels) of a region, by all warps of the block. rows: those of regionRow for each bin.
template <typename T>
__device__ inline void poolSeparable(const RegionFrame& frame, const RegionRow* rows, const T* source, T* target,
                                     int64_t channels, int64_t outputHeight, int64_t outputWidth) {
    const int64_t plane = int64_t{frame.height} * frame.width;
    const int64_t bins = outputHeight * outputWidth;
    const int32_t lane = static_cast<int32_t>(threadIdx.x) % kRegionWarp;
    const int64_t warp = threadIdx.x / kRegionWarp;
    const int64_t warps = blockDim.x / kRegionWarp;
    const int32_t lanes = lanesOfRegionBin(frame.mostX);
    const int32_t tile = kRegionWarp / lanes;
    const int32_t part = lane % lanes;
    const float scale = static_cast<float>(1.0 / (frame.gridY * frame.gridX));
    for (int64_t firstBin = 0; firstBin < outputWidth; firstBin += tile) {
        const int64_t bin = firstBin + lane / lanes;
        RegionColumn column{0, 0.0F, false};
        if (bin < outputWidth && part < 2 * frame.mostX) {
            column = regionColumn(frame, bin, part / 2, part % 2 != 0);
        }
        for (int64_t channel = warp; channel < channels; channel += warps * kRegionRowChannels) {
            const int64_t left = (channels - channel + warps - 1) / warps;
            const RegionRows<T> task{source + channel * plane, warps * plane, target + channel * bins, warps * bins,
                                     static_cast<int32_t>(left < kRegionRowChannels ? left : kRegionRowChannels)};
            poolRows(task, rows, frame.mostY, outputHeight, outputWidth, column, lanes, bin,
                     part == 0 && bin < outputWidth, scale);
        }
    }
}

}  // namespace trtsmith
