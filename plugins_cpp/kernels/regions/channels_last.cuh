// Maps with their channels moved to the end, and filled up with zeros, so that each pixel's are read in loads of 16 bytes.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/convert.cuh"
#include "kernels/dispatch.cuh"

namespace trtsmith {
namespace channels_last {

constexpr int32_t kThreads = 256;
constexpr int32_t kWarp = 32;
constexpr int32_t kTile = 64;

struct Arguments {
    const void* source;  // T [planes, channels, pixels]
    void* target;        // T [planes, pixels, padded]
    int64_t channels;
    int64_t padded;
    int64_t pixels;
    int64_t channelTiles;
    int64_t pixelTiles;
    int64_t pieces;
};

// Word: what holds one element. Tiles go through shared memory, whose rows are one word longer than a tile.
template <typename Word>
__global__ void __launch_bounds__(kThreads) moveKernel(const __grid_constant__ Arguments a) {
    constexpr int32_t kPitch = kTile + (sizeof(Word) == 2 ? 2 : 1);
    __shared__ Word tile[kTile][kPitch];
    const Word* const source = static_cast<const Word*>(a.source);
    Word* const target = static_cast<Word*>(a.target);
    const int32_t lane = static_cast<int32_t>(threadIdx.x) % kWarp;
    const int32_t warp = static_cast<int32_t>(threadIdx.x) / kWarp;
    for (int64_t piece = blockIdx.x; piece < a.pieces; piece += gridDim.x) {
        const int64_t rest = piece / a.pixelTiles;
        const int64_t pixel = (piece - rest * a.pixelTiles) * kTile;
        const int64_t plane = rest / a.channelTiles;
        const int64_t channel = (rest - plane * a.channelTiles) * kTile;
#pragma unroll
        for (int32_t i = 0; i < kTile / (kThreads / kWarp); ++i) {
            const int32_t row = warp + i * (kThreads / kWarp);
            const Word* const line = source + (plane * a.channels + channel + row) * a.pixels + pixel;
#pragma unroll
            for (int32_t column = lane; column < kTile; column += kWarp) {
                const bool exists = channel + row < a.channels && pixel + column < a.pixels;
                tile[row][column] = exists ? __ldg(line + column) : Word{0};
            }
        }
        __syncthreads();
#pragma unroll
        for (int32_t i = 0; i < kTile / (kThreads / kWarp); ++i) {
            const int32_t column = warp + i * (kThreads / kWarp);
            Word* const line = target + (plane * a.pixels + pixel + column) * a.padded + channel;
#pragma unroll
            for (int32_t row = lane; row < kTile; row += kWarp) {
                if (channel + row < a.padded && pixel + column < a.pixels) {
                    line[row] = tile[row][column];
                }
            }
        }
        __syncthreads();
    }
}

// Channels of a pixel after filling up to whole loads.
inline int64_t paddedChannels(int64_t channels, size_t elementBytes) {
    const int64_t vector = 16 / static_cast<int64_t>(elementBytes);
    return ceilDivide(channels, vector) * vector;
}

template <typename T>
cudaError_t moveChannels(const void* source, void* target, int64_t planes, int64_t channels, int64_t pixels,
                         cudaStream_t stream) {
    using Word = typename WordOf<static_cast<int>(sizeof(T))>::type;
    Arguments a{source, target, channels, paddedChannels(channels, sizeof(T)), pixels, 0, 0, 0};
    a.channelTiles = ceilDivide(a.padded, kTile);
    a.pixelTiles = ceilDivide(pixels, kTile);
    a.pieces = planes * a.channelTiles * a.pixelTiles;
    return a.pieces > 0 ? launch(moveKernel<Word>, gridBlocks(a.pieces), kThreads, 0, stream, a) : cudaSuccess;
}

}  // namespace channels_last
}  // namespace trtsmith
