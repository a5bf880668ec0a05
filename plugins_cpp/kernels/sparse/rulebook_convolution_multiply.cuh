// Products of weights with gathered rows, for the convolution along a rulebook: mma, whose rows are filters and whose columns
// are rows of the tensor.
//
// Depth comes in units of 16 bytes of a row's channels, 8 of 16 bits or 4 of float. Which of a product's depth is which channel
// does not matter as long as both sides agree: lane i of a warp has unit i % 4 of its rows and of its filters as it lies in
// memory, whose words 0 and 1 are the depth of one product and 2 and 3 that of the next.
#pragma once

#include "kernels/convert.cuh"
#include "kernels/tensor_core.cuh"

namespace trtsmith {
namespace sparse {

constexpr int kUnitBytes = 16;
constexpr int kHalfUnits = 4;  // a unit of each lane of four
constexpr int kStepUnits = 8;  // of weights in shared memory
constexpr int kRowBytes = kUnitBytes * kStepUnits;

union Unit {
    uint4 vector;
    uint32_t words[kUnitBytes / 4];
};

// Where a unit of a filter's weights lies in shared memory; odd filters exchange the halves of a row, so that what eight lanes
// read is in different banks.
__device__ inline uint32_t unitOffset(int filter, int unit) {
    return static_cast<uint32_t>(filter * kRowBytes + ((unit ^ ((filter & 1) * kHalfUnits)) * kUnitBytes));
}

__device__ inline void storeUnit(uint32_t address, const Unit& unit) {
    asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(unit.words[0]), "r"(unit.words[1]),
                 "r"(unit.words[2]), "r"(unit.words[3])
                 : "memory");
}

// sums[16 x 8] += a[16 x 8] * b[8 x 8] in TF32; fragments as the PTX ISA lays out mma.m16n8k8, bits of float.
__device__ inline void multiplyTf32(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// value = high + low but for 2^-21 of it: high is rounded to the 11 bits that a product reads, and of low it reads the first 11.
// What is not finite, or rounds to what is not, gives a sum that is not finite.
__device__ inline void splitTf32(const uint32_t (&value)[4], uint32_t (&high)[4], uint32_t (&low)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        high[i] = (value[i] + 0x1000U) & 0xffffe000U;
        low[i] = __float_as_uint(__uint_as_float(value[i]) - __uint_as_float(high[i]));
    }
}

// The weights of 16 filters for the two products of a lane's unit of them: those of two filters, eight apart.
__device__ inline void loadFilters(uint32_t (&products)[2][4], uint32_t weights, int block, int half, int lane) {
#pragma unroll
    for (int upper = 0; upper < 2; ++upper) {
        const int filter = block * 16 + upper * 8 + lane / 4;
        asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];"
                     : "=r"(products[0][upper]), "=r"(products[0][2 + upper]), "=r"(products[1][upper]),
                       "=r"(products[1][2 + upper])
                     : "r"(weights + unitOffset(filter, half * kHalfUnits + lane % kHalfUnits))
                     : "memory");
    }
}

// Adds the products of half a step to the sums of kCount of a warp's four blocks of eight rows, from block kFirst on. units: the
// lane's, one of each block. weights: where the step's are in shared memory.
template <int kFirst, int kCount, int kFilters>
__device__ inline void multiplyFloats(const Unit (&units)[4], uint32_t weights, int half, int lane,
                                      float (&sums)[kFilters / 16][4][4]) {
    uint32_t high[kCount][4];
    uint32_t low[kCount][4];
#pragma unroll
    for (int n = 0; n < kCount; ++n) {
        splitTf32(units[kFirst + n].words, high[n], low[n]);
    }
#pragma unroll
    for (int block = 0; block < kFilters / 16; ++block) {
        // Tensor cores cut off where float addition rounds, so that they add up half a step only, and ordinary additions these.
        float parts[kCount][4] = {};
        uint32_t filters[2][4];
        loadFilters(filters, weights, block, half, lane);
#pragma unroll
        for (int product = 0; product < 2; ++product) {
            uint32_t filtersHigh[4];
            uint32_t filtersLow[4];
            splitTf32(filters[product], filtersHigh, filtersLow);
            const int word = 2 * product;
#pragma unroll
            for (int n = 0; n < kCount; ++n) {
                multiplyTf32(parts[n], filtersLow, high[n][word], high[n][word + 1]);
            }
#pragma unroll
            for (int n = 0; n < kCount; ++n) {
                multiplyTf32(parts[n], filtersHigh, low[n][word], low[n][word + 1]);
            }
#pragma unroll
            for (int n = 0; n < kCount; ++n) {
                multiplyTf32(parts[n], filtersHigh, high[n][word], high[n][word + 1]);
            }
        }
#pragma unroll
        for (int n = 0; n < kCount; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                sums[block][kFirst + n][i] += parts[n][i];
            }
        }
    }
}

// The same for 16-bit elements.
template <int kFirst, int kCount, int kFilters, typename T>
__device__ inline void multiplyHalves(const Unit (&units)[4], uint32_t weights, int half, int lane,
                                      float (&sums)[kFilters / 16][4][4]) {
#pragma unroll
    for (int block = 0; block < kFilters / 16; ++block) {
        uint32_t filters[2][4];
        loadFilters(filters, weights, block, half, lane);
#pragma unroll
        for (int product = 0; product < 2; ++product) {
#pragma unroll
            for (int n = kFirst; n < kFirst + kCount; ++n) {
                multiplyTile(sums[block][n], filters[product], units[n].words[2 * product],
                             units[n].words[2 * product + 1], T{});
            }
        }
    }
}

template <int kFirst, int kCount, int kFilters, typename T>
__device__ inline void multiplyUnits(const Unit (&units)[4], uint32_t weights, int half, int lane,
                                     float (&sums)[kFilters / 16][4][4]) {
    if constexpr (sizeof(T) == sizeof(float)) {
        multiplyFloats<kFirst, kCount, kFilters>(units, weights, half, lane, sums);
    } else {
        multiplyHalves<kFirst, kCount, kFilters, T>(units, weights, half, lane, sums);
    }
}

}  // namespace sparse
}  // namespace trtsmith
