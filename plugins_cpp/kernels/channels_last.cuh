// Lays maps and volumes out with their channels last, filled up with zeros to whole loads: for kernels that read few places of
// them, but many channels of each.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>

#include "kernels/convert.cuh"
#include "kernels/dispatch.cuh"
#include "kernels/fast_division.cuh"

namespace trtsmith {

// How many of `left` are in a tile of `most`.
__host__ __device__ inline int32_t least(int64_t left, int32_t most) {
    return left < most ? static_cast<int32_t>(left) : most;
}

constexpr int kLayoutBlocks = 4;  // of a multiprocessor, which lay maps out

// A block turns a tile of kPlaces places and kChannels channels in shared memory, whose rows are words of 4 bytes of the channels.
// A place is one word further for every 32 places before it, so that threads side by side, which write several places each,
// find banks of their own; and so do those that read words of a place, by the stride.
template <int kBytes>
struct ChannelTile {
    static constexpr int kThreads = 256;
    static constexpr int kLanes = 32;  // threads that read neighbouring places of a channel
    static constexpr int kLoad = 16;   // bytes of each
    static constexpr int kVector = kLoad / kBytes;
    static constexpr int kChannels = 32;
    static constexpr int kPlaces = kLanes * kVector;
    static constexpr int kWords = kChannels * kBytes / 4;
    static constexpr int kStride = (kPlaces + kPlaces / 32 + 2) / 8 * 8 + (kBytes == 4 ? 5 : 2);
};

// Reads a tile of `channels` and `left` places to shared memory. kWhole: rows of the source begin at multiples of a load.
template <bool kWhole, typename Word>
__device__ inline void readTile(const Word* source, int32_t channels, int64_t places, int32_t left, uint32_t* tile) {
    using Tile = ChannelTile<sizeof(Word)>;
    constexpr int kVector = Tile::kVector;
    constexpr int kPack = 4 / static_cast<int>(sizeof(Word));  // channels of a word of the tile
    constexpr int kWarps = Tile::kThreads / Tile::kLanes;
    constexpr int kRows = Tile::kWords / kWarps;
    const int lane = static_cast<int>(threadIdx.x) % Tile::kLanes;
    const int warp = static_cast<int>(threadIdx.x) / Tile::kLanes;
    const int first = kWhole ? lane * kVector : lane;
    constexpr int kStep = kWhole ? 1 : Tile::kLanes;  // from one of a thread's places to the next
    const Word* line = source + warp * kPack * places + first;
    Word values[kRows][kPack][kVector];
#pragma unroll
    for (int i = 0; i < kRows; ++i, line += (kWarps - 1) * kPack * places) {
#pragma unroll
        for (int k = 0; k < kPack; ++k, line += places) {
            const int32_t exist = (warp + i * kWarps) * kPack + k < channels ? left : 0;
            if (kWhole) {
                loadElements<kVector>(line, first < exist, values[i][k]);
            } else {
#pragma unroll
                for (int j = 0; j < kVector; ++j) {
                    values[i][k][j] = first + j * kStep < exist ? __ldg(line + j * kStep) : Word{0};
                }
            }
        }
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int j = 0; j < kVector; ++j) {
            const int place = first + j * kStep;
            Word elements[kPack];
#pragma unroll
            for (int k = 0; k < kPack; ++k) {
                elements[k] = values[i][k][j];
            }
            memcpy(&tile[(warp + i * kWarps) * Tile::kStride + place + place / 32], elements, sizeof(uint32_t));
        }
    }
}

// One tile of one image, by all threads of a block. tile: kWords * kStride words of shared memory that no thread uses any more.
// Word: what holds one element. whole: as readTile's kWhole.
template <typename Word>
__device__ inline void layOutTile(const Word* source, Word* target, int64_t channels, int64_t padded, int64_t places,
                                  int64_t firstChannel, int64_t firstPlace, bool whole, uint32_t* tile) {
    using Tile = ChannelTile<sizeof(Word)>;
    constexpr int kVector = Tile::kVector;
    const int thread = static_cast<int>(threadIdx.x);
    const int32_t left = least(places - firstPlace, Tile::kPlaces);
    const int32_t some = least(channels - firstChannel, Tile::kChannels);
    source += firstChannel * places + firstPlace;
    // Two bodies: in one for both, words of 16 bytes are taken apart into elements, each in a register.
    if (whole) {
        readTile<true>(source, some, places, left, tile);
    } else {
        readTile<false>(source, some, places, left, tile);
    }
    __syncthreads();
    constexpr int kUnits = Tile::kWords / 4;
    constexpr int kStep = Tile::kThreads / kUnits;
    const int unit = thread % kUnits;
    const int first = thread / kUnits;
    const int32_t filled = firstChannel + unit * kVector < padded ? left : 0;
    Word* to = target + (firstPlace + first) * padded + firstChannel + unit * kVector;
#pragma unroll
    for (int place = first; place < Tile::kPlaces; place += kStep, to += kStep * padded) {
        if (place < filled) {
            const uint32_t* words = tile + unit * 4 * Tile::kStride + place + place / 32;
            *reinterpret_cast<uint4*>(to) =
                make_uint4(words[0], words[Tile::kStride], words[2 * Tile::kStride], words[3 * Tile::kStride]);
        }
    }
    __syncthreads();
}

struct ChannelsLast {
    const void* source;  // [images, channels, places]
    void* target;        // [images, places, padded], 16-byte aligned
    int64_t channels;
    int64_t padded;  // a multiple of the channels of a 16-byte word; those past `channels` become zero
    int64_t places;
    bool whole;
    FastDivider slices;
    FastDivider tiles;
    int32_t pieces;
};

template <typename Word>
__global__ void __launch_bounds__(ChannelTile<sizeof(Word)>::kThreads, kLayoutBlocks)
    channelsLastKernel(const __grid_constant__ ChannelsLast a) {
    using Tile = ChannelTile<sizeof(Word)>;
    __shared__ uint32_t tile[Tile::kWords * Tile::kStride];
    for (int32_t piece = static_cast<int32_t>(blockIdx.x); piece < a.pieces; piece += static_cast<int32_t>(gridDim.x)) {
        const int32_t rest = a.slices.quotient(piece);
        const int64_t image = a.tiles.quotient(rest);
        const int64_t firstChannel = int64_t{piece - rest * static_cast<int32_t>(a.slices.divisor)} * Tile::kChannels;
        const int64_t firstPlace = (rest - image * a.tiles.divisor) * Tile::kPlaces;
        layOutTile(static_cast<const Word*>(a.source) + image * a.channels * a.places,
                   static_cast<Word*>(a.target) + image * a.places * a.padded, a.channels, a.padded, a.places,
                   firstChannel, firstPlace, a.whole, tile);
    }
}

// Channels with filling, for elements of that many bytes.
inline int64_t paddedChannels(int64_t channels, size_t bytes) {
    const int64_t vector = 16 / static_cast<int64_t>(bytes);
    return ceilDivide(channels, vector) * vector;
}

// Whether channelsLast takes so many: its blocks are counted with 32 bits, and so are those of kernels with 64 places each.
inline bool isTurnable(int64_t images, int64_t channels, int64_t places) {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    int64_t pieces = 0;
    return elementCount({images, ceilDivide(channels, ChannelTile<2>::kChannels), ceilDivide(places, 64)}, pieces) &&
           pieces <= kMost / 2;
}

// T: of 2 or 4 bytes. The target must not overlap the source. cudaErrorInvalidValue for sizes that isTurnable does not take.
template <typename T>
cudaError_t channelsLast(const void* source, void* target, int64_t images, int64_t channels, int64_t places,
                         cudaStream_t stream) {
    using Word = typename WordOf<static_cast<int>(sizeof(T))>::type;
    using Tile = ChannelTile<sizeof(Word)>;
    if (!isTurnable(images, channels, places)) {
        return cudaErrorInvalidValue;
    }
    const int64_t slices = ceilDivide(channels, Tile::kChannels);
    const int64_t tiles = ceilDivide(places, Tile::kPlaces);
    if (images * slices * tiles == 0) {
        return cudaSuccess;
    }
    const ChannelsLast a{source,
                         target,
                         channels,
                         paddedChannels(channels, sizeof(T)),
                         places,
                         places % Tile::kVector == 0 && isAligned(source, Tile::kLoad),
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
