// Pools regions from maps whose channels are last: many samples read many channels each, and neighbouring threads read them
// side by side. Where a map's channels are its outer axis, each channel of a sample costs a sector of the cache of its own.
#pragma once

#include <cstdint>

#include "kernels/channels_last.cuh"
#include "kernels/convert.cuh"
#include "kernels/regions/region_arguments.cuh"

namespace trtsmith {

constexpr int kRegionWordCells = 512;  // samples of a block that are in shared memory at a time, 8 KiB
constexpr int kRegionSliceWords = 32;  // of 16 bytes: the most channels of a block, each thread a word
constexpr int kRegionTileBins = 64;

// A map's tiles, one of which a block lays out.
struct RegionLayout {
    const void* source;  // T [images, channels, plane]
    void* target;        // T [images, plane, channels]
    int64_t plane;
    FastDivider tiles;  // of places
    int32_t pieces;     // of this map: images * tiles * slices
    bool whole;         // as layOutTile has it
};

struct RegionLayouts {
    RegionLayout levels[kMaxRegionLevels];
    int64_t channels;
    FastDivider slices;   // of channels
    int32_t framePieces;  // of as many regions as a block has threads
    int32_t pieces;       // they, and then those of the maps
};

// Works out where the regions lie in the maps, and lays the maps out: `a` has them as they will be. Regions come first: a thread
// takes long for one.
template <typename T>
__global__ void __launch_bounds__(kRegionThreads, kLayoutBlocks)
    regionLayoutKernel(const __grid_constant__ RegionLayouts l, const __grid_constant__ RegionArguments a) {
    using Tile = ChannelTile<sizeof(T)>;
    using Word = typename WordOf<static_cast<int>(sizeof(T))>::type;
    static_assert(Tile::kThreads == kRegionThreads);
    __shared__ uint32_t tile[Tile::kWords * Tile::kStride];
    for (int32_t piece = static_cast<int32_t>(blockIdx.x); piece < l.pieces; piece += static_cast<int32_t>(gridDim.x)) {
        if (piece < l.framePieces) {
            const int64_t region = int64_t{piece} * kRegionThreads + threadIdx.x;
            if (region < a.shape.regions) {
                a.frames[region] = frameOf<T>(a, region);
            }
            continue;
        }
        int32_t left = piece - l.framePieces;
        int32_t level = 0;
        while (left >= l.levels[level].pieces) {
            left -= l.levels[level].pieces;
            ++level;
        }
        const RegionLayout& map = l.levels[level];
        const int32_t rest = l.slices.quotient(left);
        const int64_t image = map.tiles.quotient(rest);
        const int64_t elements = image * l.channels * map.plane;
        layOutTile(static_cast<const Word*>(map.source) + elements, static_cast<Word*>(map.target) + elements,
                   l.channels, l.channels, map.plane,
                   int64_t{left - rest * static_cast<int32_t>(l.slices.divisor)} * Tile::kChannels,
                   (rest - image * map.tiles.divisor) * Tile::kPlaces, map.whole, tile);
    }
}

// Adds one sample of a thread's channels. map: the thread's word of the first pixel.
template <RegionPooling kPooling, typename T, int kVector>
__device__ inline void addRegionWord(const RegionCell cell, const T* map, int64_t channels, int32_t width,
                                     float (&sums)[kVector]) {
    const bool inside = cell.offset >= 0;
    const T* corner = map + (inside ? cell.offset : 0) * channels;
    const int64_t right = (cell.steps & 1) != 0 ? channels : 0;
    const int64_t below = (cell.steps & 2) != 0 ? width * channels : 0;
    float values[4][kVector];
    loadFloats<kVector>(corner, inside, values[0]);
    loadFloats<kVector>(corner + right, inside, values[1]);
    loadFloats<kVector>(corner + below, inside, values[2]);
    loadFloats<kVector>(corner + below + right, inside, values[3]);
    const float upperY = 1.0F - cell.lowerY;
    const float upperX = 1.0F - cell.lowerX;
    const float weights[4] = {upperY * upperX, upperY * cell.lowerX, cell.lowerY * upperX, cell.lowerY * cell.lowerX};
    const bool counts = cell.offset != RegionCell::kNone;
#pragma unroll
    for (int k = 0; k < kVector; ++k) {
        if (kPooling == RegionPooling::kMaximumCorner) {
            const float upper = fmaxf(weights[0] * values[0][k], weights[1] * values[1][k]);
            const float lower = fmaxf(weights[2] * values[2][k], weights[3] * values[3][k]);
            sums[k] = counts ? fmaxf(sums[k], fmaxf(upper, lower)) : sums[k];
        } else {
            float sample = kPooling == RegionPooling::kAverage ? sums[k] : 0.0F;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                sample = fmaf(weights[i], values[i][k], sample);
            }
            if (kPooling == RegionPooling::kAverage) {
                sums[k] = sample;
            } else {
                sums[k] = counts ? fmaxf(sums[k], sample) : sums[k];
            }
        }
    }
}

// Words of shared memory from one bin's results to the next: odd, so that neighbouring bins are in different banks.
__host__ __device__ constexpr int32_t regionStride(int32_t sliceWords) { return sliceWords * 4 + 1; }

// The results of a tile of bins, which lie in shared memory bin by bin, to the output, where they lie channel by channel.
template <typename T>
__device__ inline void storeRegionWords(const uint32_t* staged, int32_t words, int32_t bins, int64_t allBins,
                                        T* target) {
    constexpr int kWordChannels = 4 / static_cast<int>(sizeof(T));
    const int32_t stride = regionStride(words);
    const int32_t first = static_cast<int32_t>(threadIdx.x) / bins;
    const int32_t bin = static_cast<int32_t>(threadIdx.x) - first * bins;
    const int32_t step = static_cast<int32_t>(blockDim.x) / bins;
    if (first >= step) {
        return;
    }
    for (int32_t word = first; word < words * 4; word += step) {
        T elements[kWordChannels];
        memcpy(static_cast<void*>(elements), &staged[bin * stride + word], sizeof(uint32_t));
#pragma unroll
        for (int k = 0; k < kWordChannels; ++k) {
            target[(word * kWordChannels + k) * allBins + bin] = elements[k];
        }
    }
}

// A block owns a region, a tile of its bins and a slice of its channels. A team of threads has the channels of a bin.
template <typename T, RegionPooling kPooling>
__device__ inline void poolRegionWords(const RegionArguments& a, const RegionFrame& frame, int64_t region,
                                       int64_t firstBin, int64_t firstChannel, RegionCell* cells, uint32_t* staged) {
    constexpr int kVector = ChannelTile<sizeof(T)>::kLoad / static_cast<int>(sizeof(T));
    const int64_t channels = a.shape.channels;
    const int64_t left = channels - firstChannel;
    const int32_t words = static_cast<int32_t>(left < a.sliceChannels ? left : a.sliceChannels) / kVector;
    const int32_t bins = static_cast<int32_t>(a.bins - firstBin < a.tileBins ? a.bins - firstBin : a.tileBins);
    const int32_t teams = kRegionThreads / words;
    const int32_t team = static_cast<int32_t>(threadIdx.x) / words;
    const int32_t word = static_cast<int32_t>(threadIdx.x) - team * words;
    const T* map = static_cast<const T*>(frame.data) + frame.image * int64_t{frame.height} * frame.width * channels +
                   firstChannel + word * kVector;
    const int64_t samples = frame.empty ? 0 : int64_t{frame.mostY} * frame.mostX;
    const bool someOutside = !frame.empty && (frame.mostY < frame.gridY || frame.mostX < frame.gridX);
    const float start = kPooling == RegionPooling::kAverage || frame.empty || someOutside ? 0.0F : -INFINITY;
    const float scale = frame.empty ? 0.0F : static_cast<float>(1.0 / (frame.gridY * frame.gridX));
    // All bins at once if their samples fit; else as many as there are teams, each with as many samples as fit.
    const int32_t round = samples * bins <= kRegionWordCells ? bins : (bins < teams ? bins : teams);
    const int32_t chunk = kRegionWordCells / round;
    float sums[kVector];
    for (int32_t roundBin = 0; roundBin < bins; roundBin += round) {
        const int32_t count = bins - roundBin < round ? bins - roundBin : round;
        int64_t first = 0;
        do {
            const int32_t some = static_cast<int32_t>(samples - first < chunk ? samples - first : chunk);
            __syncthreads();
            fillCells<T>(a, frame, region, firstBin + roundBin, count, first, some, cells);
            __syncthreads();
            for (int32_t bin = team; bin < count && team < teams; bin += teams) {
                if (first == 0) {
#pragma unroll
                    for (int k = 0; k < kVector; ++k) {
                        sums[k] = start;
                    }
                }
                const RegionCell* cell = cells + bin;
#pragma unroll 2
                for (int32_t sample = 0; sample < some; ++sample, cell += count) {
                    addRegionWord<kPooling>(*cell, map, channels, frame.width, sums);
                }
                if (first + some >= samples) {
                    T elements[kVector];
#pragma unroll
                    for (int k = 0; k < kVector; ++k) {
                        elements[k] = fromFloat<T>(kPooling == RegionPooling::kAverage ? sums[k] * scale : sums[k]);
                    }
                    uint32_t numbers[4];
                    memcpy(numbers, elements, sizeof(numbers));
#pragma unroll
                    for (int w = 0; w < 4; ++w) {
                        staged[(roundBin + bin) * regionStride(words) + word * 4 + w] = numbers[w];
                    }
                }
            }
            first += some;
        } while (first < samples);
    }
    __syncthreads();
    storeRegionWords(staged, words, bins, a.bins,
                     static_cast<T*>(a.params.output) + (region * channels + firstChannel) * a.bins + firstBin);
}

template <typename T, RegionPooling kPooling>
__global__ void __launch_bounds__(kRegionThreads, 3) regionWordKernel(const __grid_constant__ RegionArguments a) {
    __shared__ RegionCell cells[kRegionWordCells];
    __shared__ RegionFrame frame;
    extern __shared__ uint32_t staged[];
    for (int64_t piece = blockIdx.x; piece < a.pieces; piece += gridDim.x) {
        const int64_t rest = piece / a.shape.regions;
        const int64_t region = piece - rest * a.shape.regions;
        const int64_t slice = rest / a.tiles;
        __syncthreads();
        constexpr int kFrameWords = sizeof(RegionFrame) / sizeof(uint64_t);
        static_assert(sizeof(RegionFrame) % sizeof(uint64_t) == 0 && kFrameWords <= kRegionThreads);
        if (threadIdx.x < kFrameWords) {
            const auto* words = reinterpret_cast<const uint64_t*>(a.frames + region);
            reinterpret_cast<uint64_t*>(&frame)[threadIdx.x] = words[threadIdx.x];
        }
        __syncthreads();
        const int64_t firstBin = (rest - slice * a.tiles) * a.tileBins;
        poolRegionWords<T, kPooling>(a, frame, region, firstBin, slice * a.sliceChannels, cells, staged);
    }
}

}  // namespace trtsmith
