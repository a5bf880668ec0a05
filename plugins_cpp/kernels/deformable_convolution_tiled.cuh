// Deformable convolution on tensor cores (sm_80 and later): an implicit GEMM that samples straight into shared memory.
//
// A block makes kOut output channels x 128 pixels. x lies channels-last, so that one sample of 8 (fp16, bf16) or
// 4 (fp32) channels is four 16-byte loads, and 8 lanes read 128 consecutive bytes of each corner. While the tensor
// cores multiply one step of the depth (DepthOrder), the block samples the next one and locates the one after:
//   locate: position, bilinear weights times mask for each (site, pixel) of a step, into shared memory
//   sample: four corners, fp32 arithmetic, rounded to the operand's type, into shared memory
//   multiply: mma.m16n8k16, rows are output channels, columns are pixels
// Each stage is cut into four phases, so that the loads of a phase are in flight while its multiplications run.
#pragma once

#include "convert.cuh"
#include "deformable_convolution_sampling.cuh"
#include "dispatch.cuh"
#include "tensor_core.cuh"

namespace trtsmith {
namespace tiled {

constexpr int kPixels = 128;
constexpr int kSampleBytes = kPixels * kRowBytes;
constexpr int kPhases = 4;

// Warps of a block over its tile, and the 16 x 8 tiles of each.
template <int kOut>
struct WarpTile {
    static constexpr int kThreads = 256;
    static constexpr int kOutWarps = kOut == 256 ? 4 : 2;
    static constexpr int kPixelWarps = kThreads / 32 / kOutWarps;
    static constexpr int kM = kOut / kOutWarps / 16;
    static constexpr int kN = kPixels / kPixelWarps / 8;
};

// Places in dynamic shared memory, in bytes.
template <int kOut>
struct Places {
    static constexpr int kSamples = 0;
    static constexpr int kWeights = kSamples + 2 * kSampleBytes;
    static constexpr int kPixel = kWeights + 2 * kOut * kRowBytes;
    static constexpr int kFactors = kPixel + kPixels * static_cast<int>(sizeof(Pixel));
    static constexpr int kSlotBytes = kPixels * static_cast<int>(sizeof(float4) + sizeof(int32_t));  // twice
};

// Lane's swizzle: rows 0, 1, 4, 5, 8, 9, 12, 13 (the pixels of one 8 x 8 matrix) lie in different banks.
__device__ inline int sampleKey(int pixel) { return (pixel & 1) | ((pixel >> 1) & 6); }

template <typename T, int kOut>
__device__ inline void copyWeights(const Arguments<T>& a, const Tile& tile, int32_t step, int thread, uint32_t target) {
    constexpr int kThreads = WarpTile<kOut>::kThreads;
    const int chunk = thread % kStepUnits;
    const int first = thread / kStepUnits;
    const int64_t row = (static_cast<int64_t>(tile.group) * a.order.steps + step) * a.groupOut + tile.outBegin + first;
    const char* source = reinterpret_cast<const char*>(a.weight) + row * kRowBytes + chunk * kUnitBytes;
    const int32_t left = a.groupOut - tile.outBegin - first;
    target += static_cast<uint32_t>(first * kRowBytes + chunk * kUnitBytes);
#pragma unroll
    for (int i = 0; i < kOut / (kThreads / kStepUnits); ++i) {
        constexpr int kRows = kThreads / kStepUnits;
        const bool inside = i * kRows < left;
        copyAsync(target + i * kRows * kRowBytes, inside ? source + i * kRows * kRowBytes : source, inside);
    }
}

// One phase of a step: for fp16 and bf16 16 of its depth; for fp32 16 of its depth and half of the warp's pixels.
template <typename T, int kOut>
__device__ inline void multiply(int phase, uint32_t samples, uint32_t weights, int lane,
                                float (&sums)[WarpTile<kOut>::kM][WarpTile<kOut>::kN][4]) {
    using Operand = typename OperandOf<T>::type;
    constexpr int kM = WarpTile<kOut>::kM;
    constexpr int kN = WarpTile<kOut>::kN;
    const int key = lane & 7;  // of the weights' rows and of the samples' rows alike
    const int sampleChunk = (lane >> 3) & 1;
    const int weightChunk = lane >> 4;
    if constexpr (OperandOf<T>::kSplit) {
        const int depth = phase / 2 * 2;
        constexpr int kPairs = kN / 4;
        const int pairBegin = phase % 2 * kPairs;
        uint32_t high[kPairs][4];
        uint32_t low[kPairs][4];
#pragma unroll
        for (int p = 0; p < kPairs; ++p) {
            const uint32_t row = samples + (pairBegin + p) * 16 * kRowBytes;
            loadMatrices(high[p], row + (((depth + sampleChunk) ^ key) << 4));
            loadMatrices(low[p], row + (((4 + depth + sampleChunk) ^ key) << 4));
        }
#pragma unroll
        for (int m = 0; m < kM; ++m) {
            uint32_t weightHigh[4];
            uint32_t weightLow[4];
            loadMatrices(weightHigh, weights + m * 16 * kRowBytes + (((depth + weightChunk) ^ key) << 4));
            loadMatrices(weightLow, weights + m * 16 * kRowBytes + (((4 + depth + weightChunk) ^ key) << 4));
            // Tensor cores cut off where fp32 addition rounds: a long sum in them would drift by 1e-5. So they add up 16
            // of depth only, and ordinary additions the rest.
#pragma unroll
            for (int p = 0; p < kPairs; ++p) {
                float part[2][4] = {};
#pragma unroll
                for (int n = 0; n < 2; ++n) {
                    multiplyTile(part[n], weightLow, high[p][2 * n], high[p][2 * n + 1], Operand{});
                }
#pragma unroll
                for (int n = 0; n < 2; ++n) {
                    multiplyTile(part[n], weightHigh, low[p][2 * n], low[p][2 * n + 1], Operand{});
                }
#pragma unroll
                for (int n = 0; n < 2; ++n) {
                    multiplyTile(part[n], weightHigh, high[p][2 * n], high[p][2 * n + 1], Operand{});
                }
#pragma unroll
                for (int n = 0; n < 2; ++n) {
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        sums[m][2 * (pairBegin + p) + n][i] += part[n][i];
                    }
                }
            }
        }
    } else {
        uint32_t columns[kN / 2][4];
#pragma unroll
        for (int p = 0; p < kN / 2; ++p) {
            loadMatrices(columns[p], samples + p * 16 * kRowBytes + (((2 * phase + sampleChunk) ^ key) << 4));
        }
#pragma unroll
        for (int m = 0; m < kM; ++m) {
            uint32_t rows[4];
            loadMatrices(rows, weights + m * 16 * kRowBytes + (((2 * phase + weightChunk) ^ key) << 4));
#pragma unroll
            for (int n = 0; n < kN; ++n) {
                multiplyTile(sums[m][n], rows, columns[n / 2][n % 2 * 2], columns[n / 2][n % 2 * 2 + 1], Operand{});
            }
        }
    }
}

template <typename T, int kOut>
__device__ inline void storeTile(const Arguments<T>& a, const Tile& tile, const Pixel* pixels, int outBase,
                                 int pixelBase, int32_t exponent,
                                 const float (&sums)[WarpTile<kOut>::kM][WarpTile<kOut>::kN][4]) {
    bool finite = true;
#pragma unroll
    for (int m = 0; m < WarpTile<kOut>::kM; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int32_t inGroup = tile.outBegin + outBase + m * 16 + half * 8;
            if (inGroup >= a.groupOut) {
                continue;
            }
            const int64_t out = static_cast<int64_t>(tile.group) * a.groupOut + inGroup;
            const float bias = a.bias == nullptr ? 0.0F : loadFloat(a.bias + out);
            float scale[2] = {1.0F, 1.0F};
            if constexpr (OperandOf<T>::kSplit) {
                const int32_t both = -exponent - a.rowExponents[out];  // may be too large for one fp32 factor
                scale[0] = powerOfTwo(both / 2);
                scale[1] = powerOfTwo(both - both / 2);
            }
#pragma unroll
            for (int p = 0; p < WarpTile<kOut>::kN / 2; ++p) {
                float row[4] = {sums[m][2 * p][2 * half], sums[m][2 * p][2 * half + 1], sums[m][2 * p + 1][2 * half],
                                sums[m][2 * p + 1][2 * half + 1]};
                const Pixel* const four = pixels + pixelBase + p * 16;
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    if constexpr (OperandOf<T>::kSplit) {
                        row[i] = row[i] * scale[0] * scale[1];
                        finite = finite && fabsf(row[i]) <= 3.4028234e38F;
                    }
                    row[i] += bias;
                }
                if (a.vectorStores) {
                    const Pixel pixel = *four;
                    if (pixel.image >= 0) {
                        storeFloats<4>(a.output + (pixel.image * a.outChannels + out) * a.outPlane + pixel.inPlane,
                                       row);
                    }
                } else {
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        const Pixel pixel = four[i];
                        if (pixel.image >= 0) {
                            a.output[(pixel.image * a.outChannels + out) * a.outPlane + pixel.inPlane] =
                                fromFloat<T>(row[i]);
                        }
                    }
                }
            }
        }
    }
    if (OperandOf<T>::kSplit && !finite) {
        a.header->inexact = 1U;
    }
}

// For float, 64 and 256 output channels spill about 32 bytes; without that (one block for 64, no tile of 256) an H200 took
// 1.4 times as long: 366 instead of 258 us for 64 channels, 729 instead of 506 us for 256.
template <typename T, int kOut>
__global__ void __launch_bounds__(WarpTile<kOut>::kThreads, kOut == 64 ? 2 : 1)
    convolutionKernel(const Arguments<T> a) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    using Warps = WarpTile<kOut>;
    using Place = Places<kOut>;
    extern __shared__ uint4 dynamicShared[];
    char* const shared = reinterpret_cast<char*>(dynamicShared);
    Pixel* const pixels = reinterpret_cast<Pixel*>(shared + Place::kPixel);
    const int thread = static_cast<int>(threadIdx.x);
    const int lane = thread % 32;
    const int warp = thread / 32;
    // Neighbouring lanes take the units of one chunk, and then the pixels: they read neighbouring bytes of x.
    const int samplePixel = (thread >> a.laneBits) % 32;
    const int unit = (thread & ((1 << a.laneBits) - 1)) | (thread >> (a.laneBits + 5) << a.laneBits);
    const int slots = a.order.slots;
    // Of the two alternating tables: factors, then cells.
    float4* const factors = reinterpret_cast<float4*>(shared + Place::kFactors);
    uint32_t* const cells = reinterpret_cast<uint32_t*>(factors + 2 * slots * kPixels);
    const uint32_t sharedBase = sharedAddress(shared);

    const int outBase = warp / Warps::kPixelWarps * (Warps::kM * 16);
    const int pixelBase = warp % Warps::kPixelWarps * (Warps::kN * 8);
    // Columns 2q and 2q + 1 of two neighbouring tiles are pixels 4q to 4q + 3, which a lane can store at once.
    const int sampleRow = pixelBase + (lane & 6) * 2 + (lane >> 4) * 2 + (lane & 1);
    const uint32_t sampleRows = sharedBase + Place::kSamples + sampleRow * kRowBytes;
    const uint32_t weightRows = sharedBase + Place::kWeights + (outBase + lane % 16) * kRowBytes;

    int32_t exponent = 0;
    float scale = 1.0F;
    if constexpr (OperandOf<T>::kSplit) {
        exponent = scaleExponent(a.header->largest);
        scale = powerOfTwo(exponent);
    }

    for (int64_t index = blockIdx.x; index < a.tiles; index += gridDim.x) {
        const Tile tile = tileOf<kOut, kPixels>(a, index);
        __syncthreads();  // the tile before is stored
        if (thread < kPixels) {
            pixels[thread] = pixelOf(a, tile.pixelBegin + thread);
        }
        __syncthreads();

        const auto firstSite = [&](int32_t step) { return a.order.chunkUnits.quotient(step * kStepUnits); };
        // The (site, pixel) that this thread locates in a phase.
        constexpr int kSlotThreads = Warps::kThreads / kPixels;
        constexpr int kLocatePhases = kStepUnits / kSlotThreads;
        const int locatePixel = thread % kPixels;
        const auto slotOf = [&](int phase) { return phase * kSlotThreads + thread / kPixels; };
        const auto begin = [&](int32_t step, int slot) {
            return beginLocate(a, tile, firstSite(step) + slot, pixels[locatePixel]);
        };
        const auto finish = [&](const Location& location, int32_t step, int slot) {
            const int place = ((step & 1) * slots + slot) * kPixels + locatePixel;
            finishLocate(a, location, firstSite(step) + slot, pixels[locatePixel], scale, factors + place,
                         cells + place);
        };
        for (int32_t step = 0; step < 2; ++step) {
            for (int phase = 0; phase < kLocatePhases; ++phase) {
                if (slotOf(phase) < slots) {
                    finish(begin(step, slotOf(phase)), step, slotOf(phase));
                }
            }
        }

        // Where this thread samples in a step: its unit's channels and its slot in the table.
        const char* channel = nullptr;
        int table = 0;
        const auto aim = [&](int32_t step) {
            const int32_t number = step * kStepUnits + unit;
            const int32_t site = a.order.chunkUnits.quotient(number);
            const int32_t chunk =
                min(a.order.taps.quotient(site), a.groupChunks - 1);  // padding of the depth reads zeros
            const int32_t inChunk = number - site * static_cast<int32_t>(a.order.chunkUnits.divisor);
            channel = reinterpret_cast<const char*>(a.x) + (tile.group * a.groupChunks + chunk) * a.chunkBytes +
                      inChunk * kUnitBytes;
            table = ((step & 1) * slots + site - firstSite(step)) * kPixels + samplePixel;
        };
        constexpr int kPhasePixels = Warps::kThreads / kStepUnits;
        static_assert(kPixels / kPhasePixels == kPhases, "a phase samples a quarter of the step");

        copyWeights<T, kOut>(a, tile, 0, thread, sharedBase + Place::kWeights);
        __syncthreads();
        aim(0);
#pragma unroll
        for (int phase = 0; phase < kPhases; ++phase) {
            Corners corners;
            const int place = table + phase * kPhasePixels;
            beginSample(channel, channel + a.lineBytes, a.pixelBytes, cells[place], corners);
            finishSample<T>(corners, factors[place], unit, sampleKey(samplePixel + phase * kPhasePixels),
                            shared + Place::kSamples + (samplePixel + phase * kPhasePixels) * kRowBytes);
        }
        waitAsyncCopies();
        __syncthreads();

        float sums[Warps::kM][Warps::kN][4] = {};
        for (int32_t step = 0; step < a.order.steps; ++step) {
            const uint32_t sampleBuffer = sampleRows + (step & 1) * kSampleBytes;
            const uint32_t weightBuffer = weightRows + (step & 1) * (kOut * kRowBytes);
            const int next = (step + 1) & 1;
            // Past the end both go on, over sites that do not exist: a branch would keep the compiler from mixing their
            // arithmetic with the multiplications.
            if (step + 1 < a.order.steps) {
                copyWeights<T, kOut>(a, tile, step + 1, thread,
                                     sharedBase + Place::kWeights + next * (kOut * kRowBytes));
            }
            aim(step + 1);
            // Two phases of loads in flight: their latency is longer than the multiplications of one.
            Corners corners[2];
            beginSample(channel, channel + a.lineBytes, a.pixelBytes, cells[table], corners[0]);
#pragma unroll
            for (int phase = 0; phase < kPhases; ++phase) {
                const int place = table + phase * kPhasePixels;
                const bool located = phase < kLocatePhases && slotOf(phase) < slots;
                Location location;
                if (located) {
                    location = begin(step + 2, slotOf(phase));
                }
                if (phase + 1 < kPhases) {
                    beginSample(channel, channel + a.lineBytes, a.pixelBytes, cells[place + kPhasePixels],
                                corners[(phase + 1) % 2]);
                }
                multiply<T, kOut>(phase, sampleBuffer, weightBuffer, lane, sums);
                const int pixel = samplePixel + phase * kPhasePixels;
                finishSample<T>(corners[phase % 2], factors[place], unit, sampleKey(pixel),
                                shared + Place::kSamples + next * kSampleBytes + pixel * kRowBytes);
                if (located) {
                    finish(location, step + 2, slotOf(phase));
                }
            }
            waitAsyncCopies();
            __syncthreads();
        }
        storeTile<T, kOut>(a, tile, pixels, outBase + lane / 4, pixelBase + lane % 4 * 4, exponent, sums);
    }
#endif
}

}  // namespace tiled
}  // namespace trtsmith
