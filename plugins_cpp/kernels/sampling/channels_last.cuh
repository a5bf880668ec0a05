// Brings maps and volumes from channels first to channels last, so that one load reads several channels of a place.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/convert.cuh"
#include "kernels/dispatch.cuh"
#include "kernels/fast_division.cuh"

namespace trtsmith {

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
    static constexpr int kVector = 16 / kBytes;  // channels of a 16-byte word
    static constexpr int kGroups = kChannels / kVector;
    static constexpr int kPitch = kPlaces + (kBytes == 2 ? 2 : 1);
    static constexpr int kElements = kChannels * kPitch;
};

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
    constexpr int32_t kWarps = Tile::kThreads / Tile::kWarp;
    __shared__ __align__(16) Word tile[Tile::kElements];
    const int32_t thread = static_cast<int32_t>(threadIdx.x);
    const int32_t lane = thread % Tile::kWarp;
    const int32_t warp = thread / Tile::kWarp;
    for (int32_t piece = static_cast<int32_t>(blockIdx.x); piece < a.pieces; piece += static_cast<int32_t>(gridDim.x)) {
        const int32_t rest = a.slices.quotient(piece);
        const int32_t image = a.tiles.quotient(rest);
        const int64_t firstChannel = int64_t{piece - rest * static_cast<int32_t>(a.slices.divisor)} * Tile::kChannels;
        const int64_t firstPlace = int64_t{rest - image * static_cast<int32_t>(a.tiles.divisor)} * Tile::kPlaces;
        const int32_t places = least(a.places - firstPlace, Tile::kPlaces);
        const int32_t channels = least(a.channels - firstChannel, Tile::kChannels);
        const int32_t filled = least(a.padded - firstChannel, Tile::kChannels);
        const Word* source =
            static_cast<const Word*>(a.source) + (image * a.channels + firstChannel + warp) * a.places + firstPlace;
        __syncthreads();
#pragma unroll
        for (int32_t row = warp; row < Tile::kChannels; row += kWarps, source += kWarps * a.places) {
            const bool exists = row < channels;
            if (sizeof(Word) == 2 && a.pairs) {
                const bool valid = exists && 2 * lane < places;
                const uint32_t word = valid ? __ldg(reinterpret_cast<const uint32_t*>(source) + lane) : 0U;
                reinterpret_cast<uint32_t*>(tile)[row * (Tile::kPitch / 2) + lane] = word;
            } else {
                const Word first = exists && lane < places ? __ldg(source + lane) : Word{0};
                const Word second =
                    exists && lane + Tile::kWarp < places ? __ldg(source + lane + Tile::kWarp) : Word{0};
                tile[row * Tile::kPitch + lane] = first;
                tile[row * Tile::kPitch + lane + Tile::kWarp] = second;
            }
        }
        __syncthreads();
        const int32_t group = thread % Tile::kGroups;
        Word* const target = static_cast<Word*>(a.target) + (image * a.places + firstPlace) * a.padded + firstChannel +
                             group * Tile::kVector;
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
                *reinterpret_cast<uint4*>(target + place * a.padded) = word;
            }
        }
    }
}

// Channels with filling, for elements of that many bytes.
inline int64_t paddedChannels(int64_t channels, size_t bytes) {
    const int64_t vector = 16 / static_cast<int64_t>(bytes);
    return ceilDivide(channels, vector) * vector;
}

// Whether channelsLast takes so many: its blocks are counted with 32 bits.
inline bool isTurnable(int64_t images, int64_t channels, int64_t places) {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    int64_t pieces = 0;
    return elementCount(
               {images, ceilDivide(channels, ChannelTile<2>::kChannels), ceilDivide(places, ChannelTile<2>::kPlaces)},
               pieces) &&
           pieces <= kMost / 2;
}

// T: of 2 or 4 bytes. The target must not overlap the source. Sizes as isTurnable takes them.
template <typename T>
cudaError_t channelsLast(const void* source, void* target, int64_t images, int64_t channels, int64_t places,
                         cudaStream_t stream) {
    using Word = typename WordOf<static_cast<int>(sizeof(T))>::type;
    using Tile = ChannelTile<sizeof(Word)>;
    const int64_t slices = ceilDivide(channels, Tile::kChannels);
    const int64_t tiles = ceilDivide(places, Tile::kPlaces);
    if (images * slices * tiles == 0) {
        return cudaSuccess;
    }
    const bool pairs = places % 2 == 0 && isAligned(source, 4);
    const ChannelsLast a{source,
                         target,
                         channels,
                         paddedChannels(channels, sizeof(T)),
                         places,
                         pairs,
                         FastDivider(slices),
                         FastDivider(tiles),
                         static_cast<int32_t>(images * slices * tiles)};
    return launch(channelsLastKernel<Word>, gridBlocks(a.pieces), Tile::kThreads, 0, stream, a);
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
