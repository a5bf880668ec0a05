// The layout of operands between the tensor-core path of the deformable convolution and the kernel that prepares them.
//
// Depth (input channels x taps of one group) is counted in units: 16 bytes of consecutive channels at one tap. The
// units of one step fill a 128-byte row of shared memory. Their order: chunk of channels, tap, unit of the chunk. A
// chunk is 1 to 8 units within one group and one offset group, so (chunk, tap) is a site: one sampling position for
// each pixel. Channels are the outer loop and taps the inner one, because the taps of one chunk read the same pixels
// of x, which the level-1 cache then holds.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "fast_division.cuh"

namespace trtsmith {
namespace tiled {

constexpr int kUnitBytes = 16;
constexpr int kStepUnits = 8;
constexpr int kRowElements = 64;  // of 16 bits: one row of shared memory
constexpr int kRowBytes = kStepUnits * kUnitBytes;

// fp16 and bf16 are multiplied as they are. An fp32 value v, scaled by a power of two, is split into fp16 hi = v and
// lo = v - hi: 22 bits. hi * hi + hi * lo + lo * hi then is exact to 2^-22 of the product (Ootomo and Yokota,
// "Recovering single precision accuracy from Tensor Cores while surpassing the FP32 theoretical peak performance",
// 2022). A row of shared memory holds 32 hi and then their 32 lo.
template <typename T>
struct OperandOf {
    using type = T;
    static constexpr bool kSplit = false;
};
template <>
struct OperandOf<float> {
    using type = __half;
    static constexpr bool kSplit = true;
};

// Start of the workspace; used for fp32 only.
struct Header {
    uint32_t largest;  // bits of the largest finite |x|
    uint32_t inexact;  // not 0: an operand was not finite or left the range of fp16: the general kernel repeats it all
};
constexpr int64_t kHeaderBytes = 256;

// x in the workspace has zeros around every image, so that all four neighbours of a sample can be read without asking
// whether they lie inside: one column after each row, one row after each image, and some before the first and after the
// last. What follows a row is also what lies before the next one, and likewise for images. Counted in pixels.
struct PaddedPlanes {
    int64_t pitch;  // of a row
    int64_t image;
    int64_t first;  // pixel (0, 0) of the first image
    int64_t end;    // after the last image
    int64_t pixels;
    int64_t outside;  // four zeros: this pixel, the next one, and the two below

    PaddedPlanes() = default;
    PaddedPlanes(int64_t images, int64_t height, int64_t width)
        : pitch(width + 1),
          image((height + 1) * pitch),
          first(pitch + 1),
          end(first + images * image),
          pixels(end + pitch + 2),
          outside(end - pitch) {}
};

struct DepthOrder {
    FastDivider chunkUnits;
    FastDivider taps;
    int32_t units;  // of one group
    int32_t sites;
    int32_t steps;         // the last one may be partly empty
    int32_t slots;         // sites that one step touches at most
    int32_t tables;        // of positions, one for each site or step, that a block of the Hopper kernel keeps
    int32_t locatedSteps;  // after them their positions come again: all chunks share those of the first
};

// The power of two that brings `largest` (bits of a finite |value|) into [2^11, 2^12). That leaves a factor of 16 for
// a mask above 1, and lo keeps its 11 bits for values down to 2^-15 of the largest.
__device__ inline int32_t scaleExponent(uint32_t largest) {
    if (largest == 0U) {
        return 0;
    }
    const int32_t exponent = static_cast<int32_t>(largest >> 23) - 127;
    const int32_t scale = 11 - exponent;
    return scale > 126 ? 126 : scale;
}

// 2^exponent for -126 <= exponent <= 127
__device__ inline float powerOfTwo(int32_t exponent) {
    return __uint_as_float(static_cast<uint32_t>(exponent + 127) << 23);
}

}  // namespace tiled
}  // namespace trtsmith
