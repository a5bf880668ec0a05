// Grouped deformable sampling out of shared memory: the kernel.
#pragma once

#include <cstdint>

#include "kernels/convert.cuh"
#include "kernels/sampling/grouped_deformable_sampling_arguments.cuh"
#include "kernels/sampling/grouped_deformable_sampling_fill.cuh"
#include "kernels/sampling/grouped_deformable_sampling_words.cuh"
#include "kernels/widen.cuh"

namespace trtsmith {

constexpr int kPartWords = 2;  // of a slice, one thread's
constexpr int kSliceParts = kSliceWords / kPartWords;
constexpr int kMaxTileThreads = 512;

template <typename T>
using PartSums = float[kPartWords][WordSampler<T>::kVector];

// One thread's part of a slice of one output pixel.
template <typename T, int kTaps>
struct PartSampler {
    static constexpr int kVector = WordSampler<T>::kVector;

    SharedAddress first;    // its first word of the region's first pixel
    SharedAddress offsets;  // of its group
    SharedAddress weights;
    int32_t second;  // bytes from its first word to the other
    int32_t x;       // place of the pixel's origin in the region
    int32_t y;

    // Adds the samples whose neighbours all lie in the region. Gives the taps of the others, as bits.
    __device__ uint32_t add(const GroupedTileArguments& a, PartSums<T>& sums) const {
        const GroupedSamplingArguments& common = a.words.common;
        const float scale = common.shape.offsetScale;
        const uint32_t lastColumn = a.regionWidth.divisor - 2U;
        const uint32_t lastRow = static_cast<uint32_t>(a.regionHeight) - 2U;
        const uint32_t pitch = a.regionWidth.divisor * kSliceBytes;
        const uint32_t originX = static_cast<uint32_t>(x) - kFloorShiftBits;
        const uint32_t originY = static_cast<uint32_t>(y) - kFloorShiftBits;
        uint32_t outside = 0U;
#pragma unroll
        for (int i = 0; i < 3; ++i) {
#pragma unroll
            for (int j = 0; j < 3; ++j) {
                const int place = 3 * i + j;
                if (kTaps == 8 && place == 4) {
                    continue;
                }
                const int t = kTaps == 8 && place > 4 ? place - 1 : place;
                const float shiftX = tapShift(common.across, i, offsets.number(2 * t, T()), scale);
                const float shiftY = tapShift(common.down, j, offsets.number(2 * t + 1, T()), scale);
                // Above 2^22, and for what is not finite, these are no floors, and then never in the region either.
                const float cellX = __fadd_rd(shiftX, kFloorShift);
                const float cellY = __fadd_rd(shiftY, kFloorShift);
                const uint32_t column = __float_as_uint(cellX) + originX;
                const uint32_t row = __float_as_uint(cellY) + originY;
                const bool inside = column <= lastColumn && row <= lastRow;
                outside |= inside ? 0U : 1U << t;
                const float weight = inside ? weights.number(t, T()) : 0.0F;
                const float right = shiftX - (cellX - kFloorShift);
                const float below = shiftY - (cellY - kFloorShift);
                const float lower = weight * below;
                const float upper = weight - lower;
                const float lowerRight = lower * right;
                const float upperRight = upper * right;
                addCell(inside ? row * pitch + column * kSliceBytes : 0U, pitch,
                        {upper - upperRight, upperRight, lower - lowerRight, lowerRight}, sums);
            }
        }
        return outside;
    }

private:
    __device__ void addCell(uint32_t cell, uint32_t pitch, const float (&factors)[4], PartSums<T>& sums) const {
#pragma unroll
        for (int w = 0; w < kPartWords; ++w) {
            const SharedAddress top(first, cell + static_cast<uint32_t>(w * second));
            const SharedAddress bottom(top, pitch);
            const uint4 words[4] = {top.word(0), top.word(kSliceBytes), bottom.word(0), bottom.word(kSliceBytes)};
            float values[4][kVector];
#pragma unroll
            for (int corner = 0; corner < 4; ++corner) {
                widen(words[corner], values[corner], T());
            }
#pragma unroll
            for (int corner = 0; corner < 4; ++corner) {
#pragma unroll
                for (int k = 0; k < kVector; ++k) {
                    sums[w][k] = fmaf(factors[corner], values[corner][k], sums[w][k]);
                }
            }
        }
    }
};

// Adds the samples of the taps whose bits are set to both words of an output pixel, from global memory.
template <typename T, int kTaps>
__device__ inline void addOutside(const GroupedWordArguments& w, int32_t pixel, int32_t word,
                                  const PartSampler<T, kTaps>& part, uint32_t taps, PartSums<T>& sums) {
    const float scale = w.common.shape.offsetScale;
    WordSampler<T> samplers[kPartWords] = {samplerOf<T>(w, pixel, static_cast<uint32_t>(word))};
    samplers[1] = samplers[0];
    for (const char*& corner : samplers[1].image) {
        corner += part.second;
    }
    for (; taps != 0U; taps &= taps - 1U) {
        const int t = __ffs(static_cast<int>(taps)) - 1;
        const int place = kTaps == 8 && t >= 4 ? t + 1 : t;
        const float shiftX = tapShift(w.common.across, place / 3, part.offsets.number(2 * t, T()), scale);
        const float shiftY = tapShift(w.common.down, place % 3, part.offsets.number(2 * t + 1, T()), scale);
        const float weight = part.weights.number(t, T());
        samplers[0].add(shiftX, shiftY, weight, sums[0]);
        samplers[1].add(shiftX, shiftY, weight, sums[1]);
    }
}

template <typename T>
__device__ inline bool areFinite(const PartSums<T>& sums) {
    float probe = 0.0F;
#pragma unroll
    for (int w = 0; w < kPartWords; ++w) {
#pragma unroll
        for (int k = 0; k < WordSampler<T>::kVector; ++k) {
            probe = fmaf(sums[w][k], 0.0F, probe);
        }
    }
    return probe == 0.0F;
}

// One output pixel's part of a slice, number p of the tile.
template <typename T, int kTaps>
__device__ inline void samplePart(const GroupedTileArguments& a, const TilePlace& place, int32_t p, int32_t part,
                                  const char* region, const char* numbers) {
    constexpr int kVector = WordSampler<T>::kVector;
    const GroupedSamplingArguments& common = a.words.common;
    const GroupedDeformableSamplingShape& s = common.shape;
    const int32_t line = a.tileWidth.quotient(p);
    const int32_t outRow = place.outRow + line;
    const int32_t outColumn = place.outColumn + (p - line * static_cast<int32_t>(a.tileWidth.divisor));
    const int32_t firstWord = place.slice * kSliceWords;
    const int32_t ownWord = firstWord + part * kPartWords;
    if (outRow >= s.outHeight || outColumn >= s.outWidth ||
        ownWord >= static_cast<int32_t>(a.words.pixelWords.divisor)) {
        return;
    }
    // Pixels read their two words in turns of opposite order: eight lanes read the eight words of a slice.
    const int32_t odd = p % 2;
    const int32_t group = a.words.groupWords.quotient(ownWord) - a.words.groupWords.quotient(firstWord);
    const char* own = numbers + p * (a.offsets.slice + a.mask.slice);
    const PartSampler<T, kTaps> sampler{
        SharedAddress(region + (part * kPartWords + odd) * kWordBytes),
        SharedAddress(own + group * a.offsets.group),
        SharedAddress(own + a.weights + group * a.weightsGroup),
        (1 - 2 * odd) * kWordBytes,
        static_cast<int32_t>(common.originAcross) + outColumn * static_cast<int32_t>(s.strideWidth) - place.column,
        static_cast<int32_t>(common.originDown) + outRow * static_cast<int32_t>(s.strideHeight) - place.row};
    float sums[kPartWords][kVector] = {};
    uint32_t outside = sampler.add(a, sums);
    if (!areFinite<T>(sums)) {
        // A sample outside of the region had the factor 0, but may have met what is not finite. So all is done anew.
        outside = (1U << kTaps) - 1U;
#pragma unroll
        for (int k = 0; k < kPartWords * kVector; ++k) {
            sums[k / kVector][k % kVector] = 0.0F;
        }
    }
    const int32_t pixel =
        (place.image * static_cast<int32_t>(s.outHeight) + outRow) * static_cast<int32_t>(s.outWidth) + outColumn;
    const int32_t word = ownWord + odd;
    if (outside != 0U) {
        addOutside<T, kTaps>(a.words, pixel, word, sampler, outside, sums);
    }
    T* output = static_cast<T*>(common.params.output) + int64_t{pixel} * s.channels;
    storeFloats<kVector>(output + word * kVector, sums[0]);
    storeFloats<kVector>(output + (ownWord + 1 - odd) * kVector, sums[1]);
}

template <typename T, int kTaps>
__global__ void __launch_bounds__(kMaxTileThreads, 1) groupedTileKernel(const GroupedTileArguments a) {
    extern __shared__ uint4 tileMemory[];
    const int32_t tileWidth = static_cast<int32_t>(a.tileWidth.divisor);
    char* region = reinterpret_cast<char*>(tileMemory);
    char* numbers = region + a.regionHeight * static_cast<int32_t>(a.regionWidth.divisor) * kSliceBytes;
    const TilePlace place = tilePlace(a, static_cast<int32_t>(blockIdx.x));
    if (a.pieces) {
        fillNumbers<uint2>(a, place, numbers);
    } else {
        fillNumbers<typename WordOf<sizeof(T)>::type>(a, place, numbers);
    }
    fillRegion(a, place, region);
    waitForCopies();
    __syncthreads();
    const int32_t step = static_cast<int32_t>(blockDim.x) / kSliceParts;
    for (int32_t p = static_cast<int32_t>(threadIdx.x) / kSliceParts; p < a.tileHeight * tileWidth; p += step) {
        samplePart<T, kTaps>(a, place, p, static_cast<int32_t>(threadIdx.x) % kSliceParts, region, numbers);
    }
}

}  // namespace trtsmith
