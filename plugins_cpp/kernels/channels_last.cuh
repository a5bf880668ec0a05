// Lays maps [images, channels, pixels] out with their channels last, so that a pixel's channels are consecutive: for
// kernels that read few pixels of a map, but all their channels.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>

#include "kernels/convert.cuh"

namespace trtsmith {

constexpr int kChannelsLastThreads = 256;
constexpr int kChannelsLastPixels = 64;  // of a tile
constexpr int kChannelsLastWords = 32;   // of 4 bytes, of a pixel's channels in a tile: a line of the cache
constexpr int kChannelsLastStride = kChannelsLastPixels + 1;
constexpr int kChannelsLastBytes = 16;  // a pixel's channels are a multiple of this

template <typename T>
constexpr int kChannelsLastTile = kChannelsLastWords * 4 / static_cast<int>(sizeof(T));  // channels of a tile

// Four neighbouring elements, of which `left` exist; zeros for the others. asWord: one load, whose address must allow it.
template <typename T>
__device__ inline void loadFourElements(const T* source, int64_t left, bool asWord, T (&values)[4]) {
    using Word = typename WordOf<4 * static_cast<int>(sizeof(T))>::type;
    if (asWord) {
        Word word{};
        if (left > 0) {
            word = __ldg(reinterpret_cast<const Word*>(source));
        }
        memcpy(static_cast<void*>(values), &word, sizeof(word));
    } else {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            values[j] = j < left ? __ldg(source + j) : fromFloat<T>(0.0F);
        }
    }
}

// One tile of one image, by all kChannelsLastThreads of a block. tile: kChannelsLastWords * kChannelsLastStride words of
// shared memory that no thread uses any more. asWords: `plane` is a multiple of 4, and `source` aligned to 4 elements.
template <typename T>
__device__ inline void layOutTile(const T* source, T* target, int64_t channels, int64_t plane, int64_t firstChannel,
                                  int64_t firstPixel, bool asWords, uint32_t* tile) {
    constexpr int kWordChannels = 4 / static_cast<int>(sizeof(T));
    constexpr int kLoadLanes = kChannelsLastPixels / 4;
    constexpr int kLoadRows = kChannelsLastThreads / kLoadLanes;
    constexpr int kRows = kChannelsLastWords / kLoadRows;
    const int thread = static_cast<int>(threadIdx.x);
    const int column = thread % kLoadLanes * 4;
    const int64_t pixelsLeft = plane - firstPixel - column;
    T values[kRows][kWordChannels][4];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int k = 0; k < kWordChannels; ++k) {
            const int64_t channel = firstChannel + (thread / kLoadLanes + i * kLoadRows) * kWordChannels + k;
            loadFourElements(source + channel * plane + firstPixel + column, channel < channels ? pixelsLeft : 0,
                             asWords, values[i][k]);
        }
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
        const int row = thread / kLoadLanes + i * kLoadRows;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            T elements[kWordChannels];
#pragma unroll
            for (int k = 0; k < kWordChannels; ++k) {
                elements[k] = values[i][k][j];
            }
            memcpy(&tile[row * kChannelsLastStride + column + j], elements, sizeof(uint32_t));
        }
    }
    __syncthreads();
    constexpr int kUnits = kChannelsLastWords / 4;
    constexpr int kStorePixels = kChannelsLastThreads / kUnits;
    constexpr int kUnitChannels = kChannelsLastBytes / static_cast<int>(sizeof(T));
    const int unit = thread % kUnits;
    const int64_t channel = firstChannel + unit * kUnitChannels;
#pragma unroll
    for (int i = 0; i < kChannelsLastPixels / kStorePixels; ++i) {
        const int pixel = thread / kUnits + i * kStorePixels;
        if (channel < channels && firstPixel + pixel < plane) {
            const uint32_t* words = tile + unit * 4 * kChannelsLastStride + pixel;
            *reinterpret_cast<uint4*>(target + (firstPixel + pixel) * channels + channel) = make_uint4(
                words[0], words[kChannelsLastStride], words[2 * kChannelsLastStride], words[3 * kChannelsLastStride]);
        }
    }
    __syncthreads();
}

}  // namespace trtsmith
