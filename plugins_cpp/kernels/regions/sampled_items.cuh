// Items that are made of bilinear samples of a map whose channels come last: a pixel's channels are read at once, 16 bytes a
// lane, and results go through shared memory to where neighbouring items lie side by side.
//
// A block has 32 items and the channels of 32 loads. The cells of its items' samples are worked out once, in double, for all
// channels.
#pragma once

#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdint>

#include "kernels/convert.cuh"
#include "kernels/dispatch.cuh"
#include "kernels/regions/region_frame.cuh"

namespace trtsmith {
namespace sampled_items {

constexpr int32_t kThreads = 256;
constexpr int32_t kBlocks = 4;  // of a multiprocessor
constexpr int32_t kWarp = 32;
constexpr int32_t kItems = 32;
constexpr int32_t kSamples = 11;  // of an item, at a time: as many as a border of ten steps has

struct Arguments {
    const void* table;  // T [batch * groups, pixels, padded]
    void* output;       // T [batch, channels, items]
    int64_t channels;
    int64_t padded;
    int64_t items;  // of an image
    int64_t itemTiles;
    int64_t slices;  // of channels
    int64_t pieces;  // batch * slices * itemTiles
    int32_t height;
    int32_t width;
};

// kVector elements to shared memory and back, in their own type.
template <typename T, int kVector>
__device__ inline uint4 packed(const float (&values)[kVector]) {
    T elements[kVector];
#pragma unroll
    for (int v = 0; v < kVector; ++v) {
        elements[v] = fromFloat<T>(values[v]);
    }
    uint4 word;
    memcpy(&word, elements, sizeof word);
    return word;
}

template <typename T, int kVector>
__device__ inline void unpack(const uint4& word, float (&values)[kVector]) {
    T elements[kVector];
    memcpy(static_cast<void*>(elements), &word, sizeof word);
#pragma unroll
    for (int v = 0; v < kVector; ++v) {
        values[v] = toFloat(elements[v]);
    }
}

// Writes results of a tile, kPack items at a time.
template <typename T, int kVector, int kPack>
__device__ inline void writeTile(const Arguments& a, const uint4 (*results)[kWarp + 1], T* target, int64_t first,
                                 int64_t channel, int32_t vectors) {
    using Word = typename WordOf<kPack* static_cast<int>(sizeof(T))>::type;
    constexpr int32_t kPieces = kItems / kPack;
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < vectors * kPieces; i += kThreads) {
        const int32_t vector = i / kPieces;
        const int32_t item = (i - vector * kPieces) * kPack;
        if (first + item >= a.items) {
            continue;
        }
        T elements[kPack][kVector];
#pragma unroll
        for (int p = 0; p < kPack; ++p) {
            memcpy(static_cast<void*>(elements[p]), &results[item + p][vector], sizeof(uint4));
        }
        T* const line = target + first + item;
#pragma unroll
        for (int v = 0; v < kVector; ++v) {
            const int64_t own = channel + vector * kVector + v;
            if (own < a.channels) {
                T pair[kPack];
#pragma unroll
                for (int p = 0; p < kPack; ++p) {
                    pair[p] = elements[p][v];
                }
                Word word;
                memcpy(&word, pair, sizeof word);
                *reinterpret_cast<Word*>(line + own * a.items) = word;
            }
        }
    }
}

// Items has samples(); plane(image, item), which of the table's planes an item reads; cell(image, item, sample); begin(),
// which makes what an item's values are before its first sample; and add(), which adds some samples to them.
template <typename T, int kPack, typename Items>
__global__ void __launch_bounds__(kThreads, kBlocks)
    itemsKernel(const __grid_constant__ Arguments a, const __grid_constant__ Items source) {
    constexpr int kVector = 16 / static_cast<int>(sizeof(T));
    __shared__ uint4 results[kItems][kWarp + 1];
    __shared__ RegionCell cells[kItems * kSamples];
    const int32_t lane = static_cast<int32_t>(threadIdx.x) % kWarp;
    const int32_t warp = static_cast<int32_t>(threadIdx.x) / kWarp;
    const int64_t pixels = int64_t{a.height} * a.width;
    for (int64_t piece = blockIdx.x; piece < a.pieces; piece += gridDim.x) {
        const int64_t rest = piece / a.itemTiles;
        const int64_t first = (piece - rest * a.itemTiles) * kItems;
        const int64_t image = rest / a.slices;
        const int64_t channel = (rest - image * a.slices) * kWarp * kVector;
        const int64_t left = (a.padded - channel) / kVector;
        const int32_t vectors = static_cast<int32_t>(left < kWarp ? left : kWarp);
        const int32_t items = static_cast<int32_t>(a.items - first < kItems ? a.items - first : kItems);
        int32_t lanes = 1;  // of an item
        while (lanes < vectors) {
            lanes *= 2;
        }
        const int32_t own = lane % lanes;
        const int32_t step = kThreads / lanes;
        const int32_t samples = source.samples();
        for (int32_t begin = 0; begin < samples; begin += kSamples) {
            const int32_t count = samples - begin < kSamples ? samples - begin : kSamples;
            __syncthreads();
            for (int32_t i = static_cast<int32_t>(threadIdx.x); i < items * count; i += kThreads) {
                const int32_t item = i / count;
                const int32_t sample = i - item * count;
                cells[item * kSamples + sample] = source.cell(image, first + item, begin + sample, a);
            }
            __syncthreads();
            for (int32_t item = (warp * kWarp + lane) / lanes; item < items && own < vectors; item += step) {
                const T* const plane = static_cast<const T*>(a.table) +
                                       source.plane(image, first + item) * pixels * a.padded + channel + own * kVector;
                float values[kVector];
                if (begin > 0) {
                    unpack<T, kVector>(results[item][own], values);
                } else {
                    source.template begin<kVector>(plane, first + item, a, values);
                }
                source.template add<kVector>(cells + item * kSamples, count, plane, first + item, a, values);
                results[item][own] = packed<T, kVector>(values);
            }
        }
        __syncthreads();
        T* const target = static_cast<T*>(a.output) + image * a.channels * a.items;
        writeTile<T, kVector, kPack>(a, results, target, first, channel, vectors);
    }
}

// Sums must have no more than kSamples samples: what is kept between rounds is rounded, which the largest does not mind.
template <typename T, typename Items>
cudaError_t sampleItems(Arguments a, int64_t batch, const Items& items, cudaStream_t stream) {
    constexpr int kVector = 16 / static_cast<int>(sizeof(T));
    constexpr int kPack = 4 / static_cast<int>(sizeof(T));
    a.itemTiles = ceilDivide(a.items, kItems);
    a.slices = ceilDivide(a.padded, kWarp * kVector);
    a.pieces = batch * a.slices * a.itemTiles;
    const bool wide = a.items % kPack == 0 && isAligned(a.output, 4);
    return wide ? launch(itemsKernel<T, kPack, Items>, gridBlocks(a.pieces), kThreads, 0, stream, a, items)
                : launch(itemsKernel<T, 1, Items>, gridBlocks(a.pieces), kThreads, 0, stream, a, items);
}

}  // namespace sampled_items
}  // namespace trtsmith
