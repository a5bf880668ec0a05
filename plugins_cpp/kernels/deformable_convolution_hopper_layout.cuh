// The division of a block's warps, registers and shared memory in the Hopper kernel of the deformable convolution, and the
// ring of stages through which its two halves meet.
#pragma once

#include "deformable_convolution_sampling.cuh"
#include "hopper.cuh"

namespace trtsmith {
namespace tiled {

// Where one pixel's positions come from and where its image lies.
struct PixelPlace {
    int64_t offset;  // elements, to (dy, pixel) of the group's first site
    int64_t mask;
    int32_t originY;
    int32_t originX;
    uint32_t image;    // pixels of x, padded, before its image
    uint32_t padding;  // one store writes it and `image`
};

// What a kernel is made of. The figures are of one H200, medians over rotated inputs, in us;
// docs/maintainers/kernel-notes.md has the cases A to E.
template <typename T, int kOut, int kPixels>
struct Pipeline {
    static constexpr bool kSplit = OperandOf<T>::kSplit;

    // Blocks of a multiprocessor. Two, where their sums leave room: one samples while the other waits. fp16 D took 214
    // instead of 224 with two blocks of 64 pixels instead of one of 128.
    static constexpr int kBlocks = kOut == 64 ? 2 : 1;

    // Warpgroups. More loads in flight do not help fp16: A took 146 instead of 131 with two phases ahead instead of one.
    static constexpr int kConsumers = kOut == 64 ? 1 : 2;
    static constexpr int kProducers = 2;
    static constexpr int kConsumerThreads = kConsumers * hopper::kWarpgroup;
    static constexpr int kProducerThreads = kProducers * hopper::kWarpgroup;
    static constexpr int kThreads = kConsumerThreads + kProducerThreads;

    // Registers of a thread: at the start, and then by its part. What a consumer has no use for, a producer takes.
    static constexpr int kEntryRegisters = 65536 / (kThreads * kBlocks) / 8 * 8;
    static constexpr int kConsumerRegisters = kOut == 64 ? (kSplit ? 80 : 64) : !kSplit ? 168 : kOut == 256 ? 176 : 128;
    static constexpr int kProducerRegisters = kOut == 64 ? (kSplit ? 80 : 88) : !kSplit ? 88 : kOut == 256 ? 80 : 128;

    // The level-1 cache has what the ring leaves. fp16 A: 147, 134, 138 with 2, 3, 4 stages; fp16 D: 145, 145, 170 with 3,
    // 4, 6; fp32 A: 294, 291, 293, 297 with 2, 3, 4, 5.
    static constexpr int kStages = 3;

    static constexpr int kSites = kProducerThreads / kPixels;  // located at a time

    // A consumer warpgroup multiplies 64 of the pixels with kColumns of the output channels, in kProducts of at most 128.
    static constexpr int kPixelGroups = kPixels / 64;
    static constexpr int kColumns = kOut / (kConsumers / kPixelGroups);
    static constexpr int kProducts = kColumns == 256 ? 2 : 1;
    static constexpr int kSums = kColumns / 2 / kProducts;  // of a thread, of each

    // Places in bytes: in a stage, after the samples; and in shared memory, after the stages.
    static constexpr int kWeights = kPixels * kRowBytes;
    static constexpr int kStageBytes = kWeights + kOut * kRowBytes;
    static constexpr int kPlaces = kStages * kStageBytes;
    static constexpr int kBarriers = kPlaces + kPixels * static_cast<int>(sizeof(int64_t));
    static constexpr int kTables = kBarriers + kStages * 16;
    static constexpr int kAlignment = 1024;  // of the stages, for the swizzle

    // tables of `slots` positions; 0 where each offset group is one unit
    static constexpr int sharedBytes(int tables, int slots) {
        constexpr int kPosition = static_cast<int>(sizeof(float4) + sizeof(uint32_t));
        const int entry = tables == 0 ? static_cast<int>(sizeof(PixelPlace)) : tables * slots * kPosition;
        return kAlignment + kTables + kPixels * entry;
    }
};

// Place in the ring: which stage, and how often it was used before, modulo 2.
template <int kStages>
struct Place {
    int stage = 0;
    uint32_t parity = 0;

    __device__ void advance() {
        if (++stage == kStages) {
            stage = 0;
            parity ^= 1U;
        }
    }
};

template <typename T, int kOut, int kPixels>
struct Shared {
    using Layout = Pipeline<T, kOut, kPixels>;
    char* base;
    uint32_t address;

    __device__ uint32_t full(int stage) const { return address + Layout::kBarriers + stage * 16; }
    __device__ uint32_t empty(int stage) const { return address + Layout::kBarriers + stage * 16 + 8; }
    __device__ uint32_t stageAddress(int stage) const { return address + stage * Layout::kStageBytes; }
    __device__ char* samples(int stage) const { return base + stage * Layout::kStageBytes; }
    // Where the tile's pixels lie in the output, as output channel 0; negative past the last pixel.
    __device__ int64_t* places() const { return reinterpret_cast<int64_t*>(base + Layout::kPlaces); }
    // Where each offset group is one unit; else the tables of positions begin there.
    __device__ PixelPlace* pixelPlaces() const { return reinterpret_cast<PixelPlace*>(base + Layout::kTables); }
    __device__ float4* factors() const { return reinterpret_cast<float4*>(base + Layout::kTables); }
};

}  // namespace tiled
}  // namespace trtsmith
