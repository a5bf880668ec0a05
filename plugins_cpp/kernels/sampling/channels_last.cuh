// Brings maps and volumes from channels first to channels last, so that one load reads several channels of a place.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/convert.cuh"
#include "kernels/dispatch.cuh"

namespace trtsmith {

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
    int64_t images;
    int64_t channels;
    int64_t padded;  // a multiple of the channels of a 16-byte word; those past `channels` become zero
    int64_t places;
    bool pairs;  // of 2-byte elements: rows begin at multiples of 4 bytes
    int64_t slices;
    int64_t tiles;
    int64_t pieces;
};

template <typename Word>
__global__ void __launch_bounds__(ChannelTile<sizeof(Word)>::kThreads)
    channelsLastKernel(const __grid_constant__ ChannelsLast a) {
    using Tile = ChannelTile<sizeof(Word)>;
    __shared__ __align__(16) Word tile[Tile::kElements];
    const int32_t thread = static_cast<int32_t>(threadIdx.x);
    const int32_t lane = thread % Tile::kWarp;
    for (int64_t piece = blockIdx.x; piece < a.pieces; piece += gridDim.x) {
        const int64_t rest = piece / a.slices;
        const int64_t firstChannel = (piece - rest * a.slices) * Tile::kChannels;
        const int64_t image = rest / a.tiles;
        const int64_t firstPlace = (rest - image * a.tiles) * Tile::kPlaces;
        const int64_t places = a.places - firstPlace;  // from here on
        __syncthreads();
#pragma unroll
        for (int32_t row = thread / Tile::kWarp; row < Tile::kChannels; row += Tile::kThreads / Tile::kWarp) {
            const int64_t channel = firstChannel + row;
            const bool exists = channel < a.channels;
            const Word* const source = static_cast<const Word*>(a.source) +
                                       (exists ? (image * a.channels + channel) * a.places + firstPlace : 0);
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
#pragma unroll
        for (int32_t item = thread; item < Tile::kPlaces * Tile::kGroups; item += Tile::kThreads) {
            const int32_t place = item / Tile::kGroups;
            const int32_t group = item % Tile::kGroups;
            const int64_t channel = firstChannel + group * Tile::kVector;
            if (place < places && channel < a.padded) {
                Word elements[Tile::kVector];
#pragma unroll
                for (int v = 0; v < Tile::kVector; ++v) {
                    elements[v] = tile[(group * Tile::kVector + v) * Tile::kPitch + place];
                }
                uint4 word;
                memcpy(&word, elements, sizeof word);
                Word* const target =
                    static_cast<Word*>(a.target) + (image * a.places + firstPlace + place) * a.padded + channel;
                *reinterpret_cast<uint4*>(target) = word;
            }
        }
    }
}

// Channels with filling, for elements of that many bytes.
inline int64_t paddedChannels(int64_t channels, size_t bytes) {
    const int64_t vector = 16 / static_cast<int64_t>(bytes);
    return ceilDivide(channels, vector) * vector;
}

// T: of 2 or 4 bytes. The target must not overlap the source.
template <typename T>
cudaError_t channelsLast(const void* source, void* target, int64_t images, int64_t channels, int64_t places,
                         cudaStream_t stream) {
    using Word = typename WordOf<static_cast<int>(sizeof(T))>::type;
    using Tile = ChannelTile<sizeof(Word)>;
    ChannelsLast a{source, target, images, channels, paddedChannels(channels, sizeof(T)), places, false, 0, 0, 0};
    a.pairs = places % 2 == 0 && isAligned(source, 4);
    a.slices = ceilDivide(channels, Tile::kChannels);
    a.tiles = ceilDivide(places, Tile::kPlaces);
    a.pieces = images * a.slices * a.tiles;
    if (a.pieces == 0) {
        return cudaSuccess;
    }
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
