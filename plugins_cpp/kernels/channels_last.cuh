// Lays maps [images, channels, pixels] out with their channels last, so that a pixel's channels are consecutive: for
// kernels that read few pixels of a map, but all their channels.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>

#include "kernels/convert.cuh"

namespace trtsmith {

constexpr int kChannelsLastThreads = 256;
constexpr int kChannelsLastWords = 32;  // of 4 bytes, of a pixel's channels in a tile: a line of the cache
constexpr int kChannelsLastBytes = 16;  // a pixel's channels are a multiple of this
constexpr int kChannelsLastLanes = 32;  // threads that read neighbouring pixels of a channel
constexpr int kChannelsLastLoad = 16;   // bytes of each

template <typename T>
constexpr int kChannelsLastTile = kChannelsLastWords * 4 / static_cast<int>(sizeof(T));  // channels of a tile

template <typename T>
constexpr int kChannelsLastPixels = kChannelsLastLanes * kChannelsLastLoad / static_cast<int>(sizeof(T));  // of a tile

// Words of shared memory from one word of the channels to the next. A pixel is one place further for every 32 pixels before
// it, so that threads side by side, which write several pixels each, find banks of their own; and so that those who read
// words of a pixel do: 4 * (8 n + 5) has all multiples of 4 for its multiples.
template <typename T>
constexpr int kChannelsLastStride = (kChannelsLastPixels<T> + kChannelsLastPixels<T> / 32 + 2) / 8 * 8 + 5;

__device__ constexpr int channelsLastPlace(int pixel) { return pixel + pixel / 32; }

// kCount neighbouring elements, of which `left` exist; zeros for the others. asWord: one load, whose address must allow it.
template <int kCount, typename T>
__device__ inline void loadSome(const T* source, int64_t left, bool asWord, T (&values)[kCount]) {
    using Word = typename WordOf<kCount* static_cast<int>(sizeof(T))>::type;
    if (asWord) {
        Word word{};
        if (left > 0) {
            word = __ldg(reinterpret_cast<const Word*>(source));
        }
        memcpy(static_cast<void*>(values), &word, sizeof(word));
    } else {
#pragma unroll
        for (int j = 0; j < kCount; ++j) {
            values[j] = j < left ? __ldg(source + j) : fromFloat<T>(0.0F);
        }
    }
}

// One tile of one image, by all kChannelsLastThreads of a block. tile: kChannelsLastWords * kChannelsLastStride words of
// shared memory that no thread uses any more. asWords: `plane` is a multiple of a load's elements, and `source` aligned to it.
template <typename T>
__device__ inline void layOutTile(const T* source, T* target, int64_t channels, int64_t plane, int64_t firstChannel,
                                  int64_t firstPixel, bool asWords, uint32_t* tile) {
    constexpr int kPack = kChannelsLastLoad / static_cast<int>(sizeof(T));
    constexpr int kWordChannels = 4 / static_cast<int>(sizeof(T));
    constexpr int kLoadRows = kChannelsLastThreads / kChannelsLastLanes;
    constexpr int kRows = kChannelsLastWords / kLoadRows;
    constexpr int kStride = kChannelsLastStride<T>;
    const int thread = static_cast<int>(threadIdx.x);
    const int column = thread % kChannelsLastLanes * kPack;
    const int64_t pixelsLeft = plane - firstPixel - column;
    T values[kRows][kWordChannels][kPack];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int k = 0; k < kWordChannels; ++k) {
            const int64_t channel = firstChannel + (thread / kChannelsLastLanes + i * kLoadRows) * kWordChannels + k;
            loadSome<kPack>(source + channel * plane + firstPixel + column, channel < channels ? pixelsLeft : 0,
                            asWords, values[i][k]);
        }
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
        const int row = thread / kChannelsLastLanes + i * kLoadRows;
#pragma unroll
        for (int j = 0; j < kPack; ++j) {
            T elements[kWordChannels];
#pragma unroll
            for (int k = 0; k < kWordChannels; ++k) {
                elements[k] = values[i][k][j];
            }
            memcpy(&tile[row * kStride + channelsLastPlace(column + j)], elements, sizeof(uint32_t));
        }
    }
    __syncthreads();
    constexpr int kUnits = kChannelsLastWords / 4;
    constexpr int kStorePixels = kChannelsLastThreads / kUnits;
    constexpr int kUnitChannels = kChannelsLastBytes / static_cast<int>(sizeof(T));
    const int unit = thread % kUnits;
    const int64_t channel = firstChannel + unit * kUnitChannels;
#pragma unroll
    for (int i = 0; i < kChannelsLastPixels<T> / kStorePixels; ++i) {
        const int pixel = thread / kUnits + i * kStorePixels;
        if (channel < channels && firstPixel + pixel < plane) {
            const uint32_t* words = tile + unit * 4 * kStride + channelsLastPlace(pixel);
            *reinterpret_cast<uint4*>(target + (firstPixel + pixel) * channels + channel) =
                make_uint4(words[0], words[kStride], words[2 * kStride], words[3 * kStride]);
        }
    }
    __syncthreads();
}

}  // namespace trtsmith
