// Pools regions from maps as they are, channel by channel: for few samples, for any number of channels, and where each bin
// has channels of its own.
#pragma once

#include "kernels/regions/region_arguments.cuh"
#include "kernels/regions/region_cells.cuh"
#include "kernels/regions/region_rows.cuh"

namespace trtsmith {

constexpr int kRegionCells = 1024;  // samples of a block that are in shared memory at a time, 16 KiB

// A block owns one region, a tile of its bins and a slice of the channels. It works out every sample of the tile once,
// into shared memory, and then reads them for all channels of the slice: neighbouring threads are neighbouring bins, whose
// samples are near one another, and the results of a block are consecutive.
template <typename T, RegionPooling kPooling>
__device__ inline void poolRegion(const RegionArguments& a, const RegionFrame& frame, int64_t region, int64_t firstBin,
                                  int64_t firstChannel, RegionCell* cells) {
    const int32_t bins = static_cast<int32_t>(a.bins - firstBin < a.tileBins ? a.bins - firstBin : a.tileBins);
    const int32_t slot = static_cast<int32_t>(threadIdx.x) / bins;
    const int64_t bin = firstBin + (static_cast<int32_t>(threadIdx.x) - slot * bins);
    const int64_t left = a.shape.channels - firstChannel;
    const int64_t channels = left < a.sliceChannels ? left : a.sliceChannels;
    const int64_t samples = frame.empty ? 0 : int64_t{frame.mostY} * frame.mostX;
    const int32_t chunk = kRegionCells / bins;
    // Of all samples, those that no thread looks at are outside of the map.
    const bool someOutside = !frame.empty && (frame.mostY < frame.gridY || frame.mostX < frame.gridX);
    const float lowest = someOutside ? 0.0F : -INFINITY;
    const int64_t plane = int64_t{frame.height} * frame.width;
    const int64_t inputs = a.params.positionSensitive ? a.bins : 1;  // input channels for an output channel
    const float scale = frame.empty ? 0.0F : static_cast<float>(1.0 / (frame.gridY * frame.gridX));

    for (int64_t round = 0; round < channels; round += int64_t{a.slots} * kRegionCellChannels) {
        const int64_t channel = round + slot;
        RegionLane<T> lane{};
        lane.stride = inputs * a.slots * plane;
        if (slot < a.slots && channel < channels) {
            const int64_t mine = (channels - channel + a.slots - 1) / a.slots;
            lane.count = static_cast<int32_t>(mine < kRegionCellChannels ? mine : kRegionCellChannels);
            const int64_t input = (frame.image * a.shape.channels + firstChannel + channel) * inputs;
            lane.source = static_cast<const T*>(frame.data) + (input + (inputs > 1 ? bin : 0)) * plane;
        }
        float sums[kRegionCellChannels];
#pragma unroll
        for (int j = 0; j < kRegionCellChannels; ++j) {
            sums[j] = kPooling == RegionPooling::kAverage ? 0.0F : lowest;
        }
        for (int64_t first = 0; first < samples; first += chunk) {
            const int32_t count = static_cast<int32_t>(samples - first < chunk ? samples - first : chunk);
            if (round == 0 || samples > chunk) {  // otherwise they are those of the round before
                __syncthreads();
                fillCells<T>(a, frame, region, firstBin, bins, first, count, cells);
                __syncthreads();
            }
            if (lane.count > 0) {
                const RegionCell* cell = cells + (bin - firstBin);
                for (int32_t sample = 0; sample < count; ++sample, cell += bins) {
                    addRegionSample<T, kPooling>(*cell, lane, frame.width, sums);
                }
            }
        }
        T* target =
            static_cast<T*>(a.params.output) + (region * a.shape.channels + firstChannel + channel) * a.bins + bin;
#pragma unroll
        for (int j = 0; j < kRegionCellChannels; ++j) {
            if (j < lane.count) {
                const float value = kPooling == RegionPooling::kAverage ? sums[j] * scale : sums[j];
                target[j * a.slots * a.bins] = fromFloat<T>(frame.empty ? 0.0F : value);
            }
        }
    }
}

// Whether it may sum rows and columns apart: with these boxes, offsets and pooling.
__host__ __device__ inline bool mayBeSeparable(const RegionAlignParams& p) {
    return p.pooling == RegionPooling::kAverage && p.boxes == RegionBoxes::kCorners && p.offsets == nullptr &&
           !p.positionSensitive;
}

// Whether a block sums rows and columns apart, if the region is one for it.
template <RegionPooling kPooling>
__device__ inline bool isSeparable(const RegionArguments& a, const RegionFrame& frame) {
    return kPooling == RegionPooling::kAverage && mayBeSeparable(a.params) && a.tiles == 1 &&
           rowsFit(frame, a.shape.outputHeight, kRegionCells);
}

template <typename T>
__device__ inline void poolRegionByRows(const RegionArguments& a, const RegionFrame& frame, int64_t region,
                                        int64_t firstChannel, RegionRow* rows) {
    const int32_t count = static_cast<int32_t>(a.shape.outputHeight) * frame.mostY;
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < count; i += static_cast<int32_t>(blockDim.x)) {
        rows[i] = regionRow(frame, i / frame.mostY, i % frame.mostY);
    }
    __syncthreads();
    const int64_t left = a.shape.channels - firstChannel;
    const int64_t plane = int64_t{frame.height} * frame.width;
    poolSeparable(frame, rows,
                  static_cast<const T*>(frame.data) + (frame.image * a.shape.channels + firstChannel) * plane,
                  static_cast<T*>(a.params.output) + (region * a.shape.channels + firstChannel) * a.bins,
                  left < a.sliceChannels ? left : a.sliceChannels, a.shape.outputHeight, a.shape.outputWidth);
}

// A function of its own: one thread of a block calls it, and all would have its registers.
template <typename T>
__device__ __noinline__ RegionFrame frameApart(const RegionArguments& a, int64_t region) {
    return frameOf<T>(a, region);
}

// kBlocks: of a multiprocessor. Rows are faster with three, though some registers are then spilled, and cells with two.
template <typename T, RegionPooling kPooling, int kBlocks>
__global__ void __launch_bounds__(kRegionThreads, kBlocks) regionKernel(const __grid_constant__ RegionArguments a) {
    static_assert(sizeof(RegionCell) == sizeof(RegionRow) && alignof(RegionCell) == alignof(RegionRow));
    __shared__ union {
        RegionCell cells[kRegionCells];
        RegionRow rows[kRegionCells];
    } places;
    __shared__ RegionFrame frame;
    for (int64_t piece = blockIdx.x; piece < a.pieces; piece += gridDim.x) {
        const int64_t rest = piece / a.shape.regions;
        const int64_t region = piece - rest * a.shape.regions;
        const int64_t slice = rest / a.tiles;
        __syncthreads();
        if (threadIdx.x == 0) {
            frame = frameApart<T>(a, region);
        }
        __syncthreads();
        if (isSeparable<kPooling>(a, frame)) {
            poolRegionByRows<T>(a, frame, region, slice * a.sliceChannels, places.rows);
        } else {
            const int64_t firstBin = (rest - slice * a.tiles) * a.tileBins;
            poolRegion<T, kPooling>(a, frame, region, firstBin, slice * a.sliceChannels, places.cells);
        }
    }
}

}  // namespace trtsmith
