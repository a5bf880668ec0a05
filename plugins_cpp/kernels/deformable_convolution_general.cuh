// Deformable convolution with fp32 arithmetic throughout, for every shape and architecture: the general path.
#pragma once

#include "bilinear.cuh"
#include "convert.cuh"
#include "dispatch.cuh"

namespace trtsmith {
namespace general {

// Implicit GEMM: out[channels x pixels] = weight[channels x depth] * columns[depth x pixels], where depth runs over the
// (input channel, tap) pairs in the order in which the weights lie in memory, and pixels over all images. A block makes
// a kOut x kPixels tile, kDepth of depth at a time, in two alternating buffers of shared memory. Positions and bilinear
// weights depend on the pixel, the tap and the offset group only: they are computed once for kTaps taps and serve
// every channel of the offset group. The stages (locate, fetch, store, multiply) are apart, each with its own
// registers. Right for every shape; the tensor-core kernel takes over where it can.
constexpr int kThreads = 256;
constexpr int kPixels = 64;
constexpr int kDepth = 8;         // 16 makes the fetch spill registers
constexpr int kTaps = 9;          // one pass for a 3x3 kernel
constexpr int kThreadPixels = 4;  // a thread multiplies kOut / 16 channels x 4 pixels
constexpr int kThreadRows = 2;    // a thread fetches 2 consecutive depths of one pixel
constexpr int kConditionalBlocks = 512;
constexpr int kPixelThreads = kPixels / kThreadPixels;
constexpr int kOutThreads = kThreads / kPixelThreads;
static_assert(kThreads / kPixels * kThreadRows == kDepth, "the fetch covers the tile of columns exactly");
static_assert(kThreadPixels == 4, "multiply reads the columns of a thread as one float4");

template <typename T>
struct Arguments {
    const T* x;
    const T* offset;
    const T* mask;
    const T* weight;
    const T* bias;
    T* output;
    int64_t channels;
    int64_t outChannels;
    int64_t offsetGroups;
    int64_t plane;     // H * W
    int64_t outPlane;  // Ho * Wo
    int64_t pixels;    // N * Ho * Wo
    int64_t tiles;
    int64_t weightRow;  // C / G * KH * KW
    int64_t taps;       // KH * KW
    int64_t strideHeight;
    int64_t strideWidth;
    int64_t paddingTop;
    int64_t paddingLeft;
    int64_t dilationHeight;
    int64_t dilationWidth;
    int32_t height;
    int32_t width;
    int32_t outWidth;
    int32_t kernelWidth;
    int32_t groups;
    int32_t groupChannels;      // C / G
    int32_t groupOut;           // O / G
    int32_t offsetChannels;     // C / OG
    int32_t outTiles;           // per group
    bool vectorStores;          // four pixels of a thread lie in one image and may be stored at once
    const uint32_t* condition;  // null, or the kernel does nothing where it points at 0
};

struct Pixel {
    int64_t image;    // negative past the last pixel
    int64_t inPlane;  // row * Wo + column
    int64_t originY;  // position of tap (0, 0) before its offset
    int64_t originX;
};

// What changes with the tile, but not within the inner loops, is here as well: in registers it would make those spill.
template <int kOut>
struct SharedTile {
    float4 cellWeights[kTaps][kPixels];  // times the mask
    int64_t cells[kTaps][kPixels];       // (offset of the upper left neighbour in the plane) * 16 + valid bits
    alignas(16) float weights[2][kDepth][kOut + 4];  // padded: a column of stores then spreads over the banks
    alignas(16) float columns[2][kDepth][kPixels];
    Pixel pixels[kPixels];
    int32_t group;
    int32_t outBegin;  // in the group
};

// A place in the depth of one pass: channel from the start of the pass, tap from its first tap. Moved by whole steps,
// so that the inner loop has no division.
struct DepthCursor {
    int32_t channel;
    int32_t tap;

    __device__ void advance(int32_t channels, int32_t taps, int32_t tapsInPass) {
        channel += channels;
        tap += taps;
        if (tap >= tapsInPass) {
            tap -= tapsInPass;
            ++channel;
        }
    }
};

// One thread for each pixel of the tile, and one for the tile itself.
template <typename T, int kOut>
__device__ inline void startTile(const Arguments<T>& a, int64_t tileIndex, int thread, SharedTile<kOut>& tile) {
    // Tiles that share their pixels are neighbours, so that they run together and find x in the cache.
    const int64_t pixelGroup = tileIndex / a.outTiles;
    const int64_t pixelTile = pixelGroup / a.groups;
    if (thread == 0) {
        tile.group = static_cast<int32_t>(pixelGroup - pixelTile * a.groups);
        tile.outBegin = static_cast<int32_t>(tileIndex - pixelGroup * a.outTiles) * kOut;
    }
    if (thread < kPixels) {
        const int64_t index = pixelTile * kPixels + thread;
        Pixel pixel{-1, 0, 0, 0};
        if (index < a.pixels) {
            pixel.image = index / a.outPlane;
            pixel.inPlane = index - pixel.image * a.outPlane;
            const int64_t row = pixel.inPlane / a.outWidth;
            pixel.originY = row * a.strideHeight - a.paddingTop;
            pixel.originX = (pixel.inPlane - row * a.outWidth) * a.strideWidth - a.paddingLeft;
        }
        tile.pixels[thread] = pixel;
    }
}

// Fills the cells of one pass: `taps` taps from tapBegin, for the pixel that this thread also fetches.
template <typename T, int kOut>
__device__ inline void locate(const Arguments<T>& a, int64_t offsetGroup, int64_t tapBegin, int32_t taps, int thread,
                              SharedTile<kOut>& tile) {
    const int slot = thread % kPixels;
    const Pixel pixel = tile.pixels[slot];
    for (int32_t tap = thread / kPixels; tap < taps; tap += kThreads / kPixels) {
        BilinearCell cell{0, 0, {0.0F, 0.0F, 0.0F, 0.0F}, 0U};
        float modulation = 0.0F;
        if (pixel.image >= 0) {
            const int64_t kernelTap = tapBegin + tap;
            const int64_t kernelRow = kernelTap / a.kernelWidth;
            const int64_t kernelColumn = kernelTap - kernelRow * a.kernelWidth;
            const int64_t site = (pixel.image * a.offsetGroups + offsetGroup) * a.taps + kernelTap;
            const T* offset = a.offset + site * 2 * a.outPlane + pixel.inPlane;
            const int64_t originY = pixel.originY + kernelRow * a.dilationHeight;
            const int64_t originX = pixel.originX + kernelColumn * a.dilationWidth;
            const float dy = loadFloat(offset);
            const float dx = loadFloat(offset + a.outPlane);
            constexpr int64_t kFar = int64_t{1} << 30;  // beyond it the sums are rounded: no 32-bit integer holds them
            const bool near = originY >= -kFar && originY <= kFar && originX >= -kFar && originX <= kFar;
            cell = near ? bilinearCell(static_cast<int32_t>(originY), dy, static_cast<int32_t>(originX), dx, a.height,
                                       a.width)
                        : bilinearCell(static_cast<float>(originY) + dy, static_cast<float>(originX) + dx, a.height,
                                       a.width);
            modulation = a.mask == nullptr ? 1.0F : loadFloat(a.mask + site * a.outPlane + pixel.inPlane);
        }
        // A sample outside still meets the mask: 0 * NaN stays NaN, as in the reference implementations.
        tile.cellWeights[tap][slot] = make_float4(modulation * cell.weights[0], modulation * cell.weights[1],
                                                  modulation * cell.weights[2], modulation * cell.weights[3]);
        const int64_t corner = static_cast<int64_t>(cell.row) * a.width + cell.column;
        tile.cells[tap][slot] = corner * 16 + static_cast<int64_t>(cell.valid);
    }
}

template <int kOut>
struct Fetched {
    float columns[kThreadRows];
    float weights[kOut * kDepth / kThreads];
};

// `x` points at the first channel of the pass in this thread's image, `weight` at this thread's first row.
template <typename T, int kOut>
__device__ inline void fetch(const Arguments<T>& a, const T* x, const T* weight, int32_t channels, int32_t taps,
                             DepthCursor columnCursor, DepthCursor weightCursor, int32_t rowsLeft, int slot,
                             const SharedTile<kOut>& tile, Fetched<kOut>& fetched) {
    constexpr int kRowStep = kThreads / kDepth;
#pragma unroll
    for (int i = 0; i < kThreadRows; ++i) {
        const bool inside = columnCursor.channel < channels;
        const int64_t cell = tile.cells[columnCursor.tap][slot];
        const float4 factor = tile.cellWeights[columnCursor.tap][slot];
        const uint32_t valid = inside ? static_cast<uint32_t>(cell) & 15U : 0U;
        const T* corner = x + columnCursor.channel * a.plane + (cell >> 4);
        const float upperLeft = loadFloat(corner, (valid & 1U) != 0U);
        const float upperRight = loadFloat(corner + 1, (valid & 2U) != 0U);
        const float lowerLeft = loadFloat(corner + a.width, (valid & 4U) != 0U);
        const float lowerRight = loadFloat(corner + a.width + 1, (valid & 8U) != 0U);
        const float upper = fmaf(factor.y, upperRight, factor.x * upperLeft);
        const float sample = fmaf(factor.w, lowerRight, fmaf(factor.z, lowerLeft, upper));
        fetched.columns[i] = inside ? sample : 0.0F;
        columnCursor.advance(0, 1, taps);
    }
    const bool inside = weightCursor.channel < channels;
    weight += weightCursor.channel * a.taps + weightCursor.tap;
#pragma unroll
    for (int i = 0; i < kOut / kRowStep; ++i) {
        fetched.weights[i] = loadFloat(weight + i * kRowStep * a.weightRow, inside && i * kRowStep < rowsLeft);
    }
}

template <int kOut>
__device__ inline void store(const Fetched<kOut>& fetched, int buffer, int thread, SharedTile<kOut>& tile) {
#pragma unroll
    for (int i = 0; i < kThreadRows; ++i) {
        tile.columns[buffer][thread / kPixels * kThreadRows + i][thread % kPixels] = fetched.columns[i];
    }
#pragma unroll
    for (int i = 0; i < kOut * kDepth / kThreads; ++i) {
        tile.weights[buffer][thread % kDepth][thread / kDepth + i * (kThreads / kDepth)] = fetched.weights[i];
    }
}

template <int kOut>
__device__ inline void multiply(const SharedTile<kOut>& tile, int buffer, int outBase, int pixelBase,
                                float (&sums)[kOut / kOutThreads][kThreadPixels]) {
#pragma unroll
    for (int depth = 0; depth < kDepth; ++depth) {
        const float4 column = *reinterpret_cast<const float4*>(&tile.columns[buffer][depth][pixelBase]);
#pragma unroll
        for (int i = 0; i < kOut / kOutThreads; i += 4) {
            const float4 weight = *reinterpret_cast<const float4*>(&tile.weights[buffer][depth][outBase + i]);
            const float rows[4] = {weight.x, weight.y, weight.z, weight.w};
#pragma unroll
            for (int row = 0; row < 4; ++row) {
                sums[i + row][0] = fmaf(rows[row], column.x, sums[i + row][0]);
                sums[i + row][1] = fmaf(rows[row], column.y, sums[i + row][1]);
                sums[i + row][2] = fmaf(rows[row], column.z, sums[i + row][2]);
                sums[i + row][3] = fmaf(rows[row], column.w, sums[i + row][3]);
            }
        }
    }
}

template <typename T, int kOut>
__device__ inline void finishTile(const Arguments<T>& a, const SharedTile<kOut>& tile, int outBase, int pixelBase,
                                  const float (&sums)[kOut / kOutThreads][kThreadPixels]) {
    const int64_t groupFirst = static_cast<int64_t>(tile.group) * a.groupOut;
    const int32_t firstOut = tile.outBegin + outBase;
#pragma unroll
    for (int i = 0; i < kOut / kOutThreads; ++i) {
        if (firstOut + i < a.groupOut) {
            const int64_t out = groupFirst + firstOut + i;
            const float bias = a.bias == nullptr ? 0.0F : loadFloat(a.bias + out);
            const float row[kThreadPixels] = {sums[i][0] + bias, sums[i][1] + bias, sums[i][2] + bias,
                                              sums[i][3] + bias};
            if (a.vectorStores) {
                const Pixel& pixel = tile.pixels[pixelBase];
                if (pixel.image >= 0) {
                    T* output = a.output + (pixel.image * a.outChannels + out) * a.outPlane + pixel.inPlane;
                    storeFloats<kThreadPixels>(output, row);
                }
            } else {
#pragma unroll
                for (int j = 0; j < kThreadPixels; ++j) {
                    const Pixel& pixel = tile.pixels[pixelBase + j];
                    if (pixel.image >= 0) {
                        a.output[(pixel.image * a.outChannels + out) * a.outPlane + pixel.inPlane] =
                            fromFloat<T>(row[j]);
                    }
                }
            }
        }
    }
}

template <typename T, int kOut>
__global__ void __launch_bounds__(kThreads, 2) convolutionKernel(const Arguments<T> a) {
    if (a.condition != nullptr && *a.condition == 0U) {
        return;
    }
    __shared__ SharedTile<kOut> tile;
    const int thread = static_cast<int>(threadIdx.x);
    const int slot = thread % kPixels;
    const int outBase = thread / kPixelThreads * (kOut / kOutThreads);
    const int pixelBase = thread % kPixelThreads * kThreadPixels;

    for (int64_t tileIndex = blockIdx.x; tileIndex < a.tiles; tileIndex += gridDim.x) {
        __syncthreads();  // the tile before is stored
        startTile(a, tileIndex, thread, tile);
        __syncthreads();

        float sums[kOut / kOutThreads][kThreadPixels];
#pragma unroll
        for (int i = 0; i < kOut / kOutThreads; ++i) {
#pragma unroll
            for (int j = 0; j < kThreadPixels; ++j) {
                sums[i][j] = 0.0F;
            }
        }

        // A pass: channels (counted in the group) that share one offset group, and up to kTaps taps.
        for (int32_t channelBegin = 0; channelBegin < a.groupChannels;) {
            const int32_t firstChannel = tile.group * a.groupChannels + channelBegin;
            const int32_t offsetGroup = firstChannel / a.offsetChannels;
            const int32_t sharing = a.offsetChannels - (firstChannel - offsetGroup * a.offsetChannels);
            const int32_t inGroup = a.groupChannels - channelBegin;
            const int32_t channels = sharing < inGroup ? sharing : inGroup;
            for (int64_t tapBegin = 0; tapBegin < a.taps; tapBegin += kTaps) {
                const int32_t taps = static_cast<int32_t>(a.taps - tapBegin < kTaps ? a.taps - tapBegin : kTaps);
                // The last fetch of the pass before lies behind a barrier, so its cells are used up.
                locate(a, offsetGroup, tapBegin, taps, thread, tile);
                __syncthreads();

                const int64_t image = tile.pixels[slot].image;  // where negative, no cell is valid and nothing is read
                const T* x = a.x + (image * a.channels + firstChannel) * a.plane;
                const int32_t weightOut = tile.outBegin + thread / kDepth;
                const int32_t rowsLeft = a.groupOut - weightOut;
                const T* weight = a.weight + (static_cast<int64_t>(tile.group) * a.groupOut + weightOut) * a.weightRow +
                                  channelBegin * a.taps + tapBegin;
                const int32_t columnDepth = thread / kPixels * kThreadRows;
                DepthCursor columnCursor{columnDepth / taps, columnDepth % taps};
                DepthCursor weightCursor{thread % kDepth / taps, thread % kDepth % taps};
                const int32_t stepChannels = kDepth / taps;
                const int32_t stepTaps = kDepth % taps;

                // While one buffer is multiplied, the loads for the other are under way.
                uint32_t chunks = static_cast<uint32_t>((static_cast<int64_t>(channels) * taps + kDepth - 1) / kDepth);
                Fetched<kOut> fetched;
                int buffer = 0;
                fetch(a, x, weight, channels, taps, columnCursor, weightCursor, rowsLeft, slot, tile, fetched);
                store(fetched, buffer, thread, tile);
                __syncthreads();
                while (--chunks > 0U) {
                    columnCursor.advance(stepChannels, stepTaps, taps);
                    weightCursor.advance(stepChannels, stepTaps, taps);
                    fetch(a, x, weight, channels, taps, columnCursor, weightCursor, rowsLeft, slot, tile, fetched);
                    multiply(tile, buffer, outBase, pixelBase, sums);
                    buffer ^= 1;
                    store(fetched, buffer, thread, tile);
                    __syncthreads();
                }
                multiply(tile, buffer, outBase, pixelBase, sums);
            }
            channelBegin += channels;
        }
        finishTile(a, tile, outBase, pixelBase, sums);
    }
}

template <typename T, int kOut>
cudaError_t launchConvolution(Arguments<T> arguments, cudaStream_t stream) {
    arguments.outTiles = static_cast<int32_t>(ceilDivide(arguments.groupOut, kOut));
    arguments.tiles = ceilDivide(arguments.pixels, kPixels) * arguments.groups * arguments.outTiles;
    // Where it mostly does nothing, a grid of a few waves makes that short.
    const int64_t blocks =
        arguments.condition == nullptr || arguments.tiles < kConditionalBlocks ? arguments.tiles : kConditionalBlocks;
    return launch(convolutionKernel<T, kOut>, gridBlocks(blocks), kThreads, 0, stream, arguments);
}

}  // namespace general
}  // namespace trtsmith
