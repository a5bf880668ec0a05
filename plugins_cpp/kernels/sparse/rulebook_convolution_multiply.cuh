// Products of tiles in shared memory, for the convolution along a rulebook.
//
// Rows of 128 bytes, their eight 16-byte units exchanged by the last bits of the row's number (`unit ^ row % 8`), so that the
// eight rows of a matrix lie in different banks. A slice is two units: 16 channels of 16 bits or 8 of float.
#pragma once

#include "kernels/convert.cuh"
#include "kernels/tensor_core.cuh"

namespace trtsmith {
namespace sparse {

constexpr int kUnitBytes = 16;
constexpr int kStepUnits = 8;
constexpr int kRowBytes = kUnitBytes * kStepUnits;

__device__ inline uint32_t unitAddress(uint32_t rows, int row, int unit) {
    return rows + static_cast<uint32_t>(row * kRowBytes + ((unit ^ (row & 7)) << 4));
}

// sums[16 x 8] += a[16 x 8] * b[8 x 8] in TF32; fragments as the PTX ISA lays out mma.m16n8k8, bits of float.
__device__ inline void multiplyTf32(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ inline uint32_t roundTf32(float value) {
    uint32_t bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
    return bits;
}

// value = high + low but for 2^-22 of it; what is not finite, or nearly too large, gives a sum that is not finite.
__device__ inline void splitTf32(uint32_t value, uint32_t& high, uint32_t& low) {
    const float whole = __uint_as_float(value);
    high = roundTf32(whole);
    low = roundTf32(whole - __uint_as_float(high));
}

// Adds the products of a slice to the sums of kCount of a warp's blocks of 16 rows, from block kFirst on. `inputs` is where
// the warp's 32 rows are, `weights` where the kFilters rows of weights are.
template <int kFirst, int kCount, int kFilters>
__device__ inline void multiplyFloats(int slice, uint32_t inputs, uint32_t weights, int lane,
                                      float (&sums)[2][kFilters / 8][4]) {
    uint32_t high[kCount][4];
    uint32_t low[kCount][4];
#pragma unroll
    for (int m = 0; m < kCount; ++m) {
        uint32_t rows[4];
        loadMatrices(rows, unitAddress(inputs, (kFirst + m) * 16 + lane % 16, 2 * slice + lane / 16));
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            splitTf32(rows[i], high[m][i], low[m][i]);
        }
    }
#pragma unroll
    for (int p = 0; p < kFilters / 16; ++p) {
        uint32_t columns[4];
        loadMatrices(columns, unitAddress(weights, p * 16 + lane % 8 + lane / 16 * 8, 2 * slice + lane / 8 % 2));
        uint32_t columnHigh[4];
        uint32_t columnLow[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            splitTf32(columns[i], columnHigh[i], columnLow[i]);
        }
        // Tensor cores cut off where float addition rounds, so that they add up one slice only, and ordinary additions the
        // slices.
        float part[kCount][2][4] = {};
#pragma unroll
        for (int m = 0; m < kCount; ++m) {
#pragma unroll
            for (int n = 0; n < 2; ++n) {
                multiplyTf32(part[m][n], low[m], columnHigh[2 * n], columnHigh[2 * n + 1]);
            }
        }
#pragma unroll
        for (int m = 0; m < kCount; ++m) {
#pragma unroll
            for (int n = 0; n < 2; ++n) {
                multiplyTf32(part[m][n], high[m], columnLow[2 * n], columnLow[2 * n + 1]);
            }
        }
#pragma unroll
        for (int m = 0; m < kCount; ++m) {
#pragma unroll
            for (int n = 0; n < 2; ++n) {
                multiplyTf32(part[m][n], high[m], columnHigh[2 * n], columnHigh[2 * n + 1]);
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    sums[kFirst + m][2 * p + n][i] += part[m][n][i];
                }
            }
        }
    }
}

// The same for 16-bit elements.
template <int kFirst, int kCount, int kFilters, typename T>
__device__ inline void multiplyHalves(int slice, uint32_t inputs, uint32_t weights, int lane,
                                      float (&sums)[2][kFilters / 8][4]) {
    uint32_t rows[kCount][4];
#pragma unroll
    for (int m = 0; m < kCount; ++m) {
        loadMatrices(rows[m], unitAddress(inputs, (kFirst + m) * 16 + lane % 16, 2 * slice + lane / 16));
    }
#pragma unroll
    for (int p = 0; p < kFilters / 16; ++p) {
        uint32_t columns[4];
        loadMatrices(columns, unitAddress(weights, p * 16 + lane % 8 + lane / 16 * 8, 2 * slice + lane / 8 % 2));
#pragma unroll
        for (int m = 0; m < kCount; ++m) {
#pragma unroll
            for (int n = 0; n < 2; ++n) {
                multiplyTile(sums[kFirst + m][2 * p + n], rows[m], columns[2 * n], columns[2 * n + 1], T{});
            }
        }
    }
}

template <int kFirst, int kCount, int kFilters, typename T>
__device__ inline void multiplySlice(int slice, uint32_t inputs, uint32_t weights, int lane,
                                     float (&sums)[2][kFilters / 8][4]) {
    if constexpr (sizeof(T) == sizeof(float)) {
        multiplyFloats<kFirst, kCount, kFilters>(slice, inputs, weights, lane, sums);
    } else {
        multiplyHalves<kFirst, kCount, kFilters, T>(slice, inputs, weights, lane, sums);
    }
}

}  // namespace sparse
}  // namespace trtsmith
