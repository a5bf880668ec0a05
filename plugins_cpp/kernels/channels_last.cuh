// Brings maps and volumes from channels first to channels last, so that one load reads several channels of a place.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>
#include <limits>

#include "kernels/convert.cuh"
#include "kernels/dispatch.cuh"
#include "kernels/fast_division.cuh"

namespace trtsmith {

constexpr int kChannelsLastBytes = 16;  // a place's channels are a multiple of this

// How many of `left` are in a tile of `most`.
__host__ __device__ inline int32_t least(int64_t left, int32_t most) {
    return left < most ? static_cast<int32_t>(left) : most;
}

// A block turns a tile of kPlaces places and kChannels channels in shared memory. Rows of the tile are channels; their
// pitch is such that neither rows nor vectors of one place's channels meet in a bank.
template <int kBytes>
struct ChannelTile {
    static constexpr int kThreads = 256;
    static constexpr int kWarp = 32;
    static constexpr int kPlaces = 64;
    static constexpr int kChannels = 32;
    static constexpr int kVector = kChannelsLastBytes / kBytes;  // channels of a word
    static constexpr int kGroups = kChannels / kVector;
    static constexpr int kPitch = kPlaces + (kBytes == 2 ? 2 : 1);
    static constexpr int kElements = kChannels * kPitch;
};

// Turns one tile of one image, by all kThreads of a block. source: the image's, [channels, places]; target: [places, padded],
// 16-byte aligned, padded a multiple of kVector: channels past `channels` become zero. pairs: of 2-byte elements, rows begin
// at multiples of 4 bytes. tile: kElements of shared memory, 16-byte aligned, that other threads may still be reading.
template <typename Word>
__device__ inline void turnTile(const Word* source, Word* target, int64_t channels, int64_t padded, int64_t allPlaces,
                                int64_t firstChannel, int64_t firstPlace, bool pairs, Word* tile) {
    using Tile = ChannelTile<sizeof(Word)>;
    constexpr int32_t kWarps = Tile::kThreads / Tile::kWarp;
    const int32_t thread = static_cast<int32_t>(threadIdx.x);
    const int32_t lane = thread % Tile::kWarp;
    const int32_t warp = thread / Tile::kWarp;
    const int32_t places = least(allPlaces - firstPlace, Tile::kPlaces);
    const int32_t exist = least(channels - firstChannel, Tile::kChannels);
    const int32_t filled = least(padded - firstChannel, Tile::kChannels);
    const Word* line = source + (firstChannel + warp) * allPlaces + firstPlace;
    __syncthreads();
#pragma unroll
    for (int32_t row = warp; row < Tile::kChannels; row += kWarps, line += kWarps * allPlaces) {
        const bool exists = row < exist;
        if (sizeof(Word) == 2 && pairs) {
            const bool valid = exists && 2 * lane < places;
            const uint32_t word = valid ? __ldg(reinterpret_cast<const uint32_t*>(line) + lane) : 0U;
            reinterpret_cast<uint32_t*>(tile)[row * (Tile::kPitch / 2) + lane] = word;
        } else {
            const Word first = exists && lane < places ? __ldg(line + lane) : Word{0};
            const Word second = exists && lane + Tile::kWarp < places ? __ldg(line + lane + Tile::kWarp) : Word{0};
            tile[row * Tile::kPitch + lane] = first;
            tile[row * Tile::kPitch + lane + Tile::kWarp] = second;
        }
    }
    __syncthreads();
    const int32_t group = thread % Tile::kGroups;
    Word* const turned = target + firstPlace * padded + firstChannel + group * Tile::kVector;
#pragma unroll
    for (int32_t place = thread / Tile::kGroups; place < Tile::kPlaces; place += Tile::kThreads / Tile::kGroups) {
        if (place < places && group * Tile::kVector < filled) {
            Word elements[Tile::kVector];
#pragma unroll
            for (int v = 0; v < Tile::kVector; ++v) {
                elements[v] = tile[(group * Tile::kVector + v) * Tile::kPitch + place];
            }
            uint4 word;
            memcpy(&word, elements, sizeof word);
            *reinterpret_cast<uint4*>(turned + place * padded) = word;
        }
    }
}

// Whether the rows of maps of 2-byte elements begin at multiples of 4 bytes, so that they are read in pairs.
inline bool isReadInPairs(const void* source, int64_t places) { return places % 2 == 0 && isAligned(source, 4); }

struct ChannelsLast {
    const void* source;  // [images, channels, places]
    void* target;        // [images, places, padded], 16-byte aligned
    int64_t channels;
    int64_t padded;  // a multiple of the channels of a 16-byte word; those past `channels` become zero
    int64_t places;
    bool pairs;  // of 2-byte elements: rows begin at multiples of 4 bytes
    FastDivider slices;
    FastDivider tiles;
    int32_t pieces;
};

template <typename Word>
__global__ void __launch_bounds__(ChannelTile<sizeof(Word)>::kThreads)
    channelsLastKernel(const __grid_constant__ ChannelsLast a) {
    using Tile = ChannelTile<sizeof(Word)>;
    __shared__ __align__(16) Word tile[Tile::kElements];
    for (int32_t piece = static_cast<int32_t>(blockIdx.x); piece < a.pieces; piece += static_cast<int32_t>(gridDim.x)) {
        const int32_t rest = a.slices.quotient(piece);
        const int32_t image = a.tiles.quotient(rest);
        const int64_t firstChannel = int64_t{piece - rest * static_cast<int32_t>(a.slices.divisor)} * Tile::kChannels;
        const int64_t firstPlace = int64_t{rest - image * static_cast<int32_t>(a.tiles.divisor)} * Tile::kPlaces;
        turnTile(static_cast<const Word*>(a.source) + image * a.channels * a.places,
                 static_cast<Word*>(a.target) + image * a.places * a.padded, a.channels, a.padded, a.places,
                 firstChannel, firstPlace, a.pairs, tile);
    }
}

// Channels with filling, for elements of that many bytes.
inline int64_t paddedChannels(int64_t channels, size_t bytes) {
    const int64_t vector = kChannelsLastBytes / static_cast<int64_t>(bytes);
    return ceilDivide(channels, vector) * vector;
}

constexpr int64_t kMostTurned = std::numeric_limits<int32_t>::max() / 2;  // tiles of a launch, counted with 32 bits

// Whether the tiles of so many are counted with 32 bits.
inline bool isTurnable(int64_t images, int64_t channels, int64_t places) {
    int64_t pieces = 0;
    return elementCount(
               {images, ceilDivide(channels, ChannelTile<2>::kChannels), ceilDivide(places, ChannelTile<2>::kPlaces)},
               pieces) &&
           pieces <= kMostTurned;
}

// T: of 2 or 4 bytes. The target must not overlap the source. An image has at most kMostTurned tiles, 2^41 elements; with
// more images than have that many together, there are several launches.
template <typename T>
cudaError_t channelsLast(const void* source, void* target, int64_t images, int64_t channels, int64_t places,
                         cudaStream_t stream) {
    using Word = typename WordOf<static_cast<int>(sizeof(T))>::type;
    using Tile = ChannelTile<sizeof(Word)>;
    const int64_t slices = ceilDivide(channels, Tile::kChannels);
    const int64_t tiles = ceilDivide(places, Tile::kPlaces);
    if (images == 0 || slices == 0 || tiles == 0) {
        return cudaSuccess;
    }
    if (!isTurnable(1, channels, places)) {
        return cudaErrorInvalidValue;
    }
    const int64_t most = kMostTurned / (slices * tiles);
    const int64_t padded = paddedChannels(channels, sizeof(T));
    cudaError_t status = cudaSuccess;
    for (int64_t first = 0; first < images && status == cudaSuccess; first += most) {
        const int64_t some = images - first < most ? images - first : most;
        const Word* const from = static_cast<const Word*>(source) + first * channels * places;
        const ChannelsLast a{from,
                             static_cast<Word*>(target) + first * places * padded,
                             channels,
                             padded,
                             places,
                             isReadInPairs(from, places),
                             FastDivider(slices),
                             FastDivider(tiles),
                             static_cast<int32_t>(some * slices * tiles)};
        status = launch(channelsLastKernel<Word>, gridBlocks(a.pieces), Tile::kThreads, 0, stream, a);
    }
    return status;
}

// In a kernel that was launched with launchAfterTurning: until the maps are turned, and can be read.
__device__ inline void waitForTurning() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Launches the kernel that reads what channelsLast writes. Where the code that runs has the instruction to wait, it is set up
// while the maps are turned: it must call waitForTurning before it reads them.
template <typename... Parameters>
cudaError_t launchAfterTurning(void (*kernel)(Parameters...), unsigned int blocks, unsigned int threads,
                               size_t sharedBytes, cudaStream_t stream,
                               typename Exactly<Parameters>::type... arguments) {
    cudaFuncAttributes attributes{};
    const cudaError_t error = cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel));
    if (error != cudaSuccess) {
        static_cast<void>(cudaGetLastError());
        return error;
    }
    return attributes.ptxVersion >= 90 ? launchAfter(kernel, blocks, threads, sharedBytes, stream, arguments...)
                                       : launch(kernel, blocks, threads, sharedBytes, stream, arguments...);
}

}  // namespace trtsmith
