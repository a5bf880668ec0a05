// Products of gathered rows with weights, for the convolution along a rulebook.
//
// Depth comes in units of 16 bytes of a row's channels, 8 of 16 bits or 4 of float. Which of a product's depth is which channel
// does not matter as long as both sides agree: lane i of a warp has unit i % 4 of its rows, as it lies in memory, and the same
// unit of its filters. Words 0 and 1 of a unit are one product's depth, 2 and 3 that of the next.
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
    uint32_t words[4];
};

// Where a filter's unit lies in shared memory: eight lanes, which have four units of two filters, read all banks.
__device__ inline uint32_t unitOffset(int filter, int unit) {
    return static_cast<uint32_t>(filter * kRowBytes + ((unit ^ (filter & 1) << 2) << 4));
}

__device__ inline Unit loadShared(uint32_t address) {
    Unit unit;
    asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(unit.words[0]), "=r"(unit.words[1]), "=r"(unit.words[2]), "=r"(unit.words[3])
                 : "r"(address)
                 : "memory");
    return unit;
}

__device__ inline void storeShared(uint32_t address, const Unit& unit) {
    asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(unit.words[0]), "r"(unit.words[1]),
                 "r"(unit.words[2]), "r"(unit.words[3])
                 : "memory");
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
__device__ inline void splitTf32(const Unit& value, Unit& high, Unit& low) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float whole = __uint_as_float(value.words[i]);
        high.words[i] = roundTf32(whole);
        low.words[i] = roundTf32(whole - __uint_as_float(high.words[i]));
    }
}

// Rows of a warp's block of 16, and eight rows apart, as a product's fragment.
struct Fragment {
    uint32_t words[4];
};

__device__ inline Fragment fragmentOf(const Unit& upper, const Unit& lower, int half) {
    return {{upper.words[2 * half], lower.words[2 * half], upper.words[2 * half + 1], lower.words[2 * half + 1]}};
}

// Adds the products of a half step to the sums of kCount of a warp's blocks of 16 rows, from block kFirst on. rows: units of
// the lane's rows, eight apart. weights: where the lane's unit of its first filter is, in shared memory.
template <int kFirst, int kCount, int kFilters>
__device__ inline void multiplyFloats(const Unit (&rows)[4], uint32_t weights, float (&sums)[2][kFilters / 8][4]) {
    Unit high[2 * kCount];
    Unit low[2 * kCount];
#pragma unroll
    for (int i = 0; i < 2 * kCount; ++i) {
        splitTf32(rows[2 * kFirst + i], high[i], low[i]);
    }
#pragma unroll
    for (int n = 0; n < kFilters / 8; n += 2) {
        // Tensor cores cut off where float addition rounds, so that they add up one half step only, and ordinary additions
        // these.
        float parts[2][kCount][4] = {};
        Unit columnHigh[2];
        Unit columnLow[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            splitTf32(loadShared(weights + (n + i) * 8 * kRowBytes), columnHigh[i], columnLow[i]);
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
            for (int term = 0; term < 3; ++term) {
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const Unit& column = term == 1 ? columnLow[i] : columnHigh[i];
#pragma unroll
                    for (int m = 0; m < kCount; ++m) {
                        const Unit(&source)[2 * kCount] = term == 0 ? low : high;
                        const Fragment fragment = fragmentOf(source[2 * m], source[2 * m + 1], half);
                        multiplyTf32(parts[i][m], fragment.words, column.words[2 * half], column.words[2 * half + 1]);
                    }
                }
            }
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
            for (int m = 0; m < kCount; ++m) {
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    sums[kFirst + m][n + i][j] += parts[i][m][j];
                }
            }
        }
    }
}

// The same for 16-bit elements.
template <int kFirst, int kCount, int kFilters, typename T>
__device__ inline void multiplyHalves(const Unit (&rows)[4], uint32_t weights, float (&sums)[2][kFilters / 8][4]) {
#pragma unroll
    for (int n = 0; n < kFilters / 8; ++n) {
        const Unit column = loadShared(weights + n * 8 * kRowBytes);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
            for (int m = kFirst; m < kFirst + kCount; ++m) {
                const Fragment fragment = fragmentOf(rows[2 * m], rows[2 * m + 1], half);
                multiplyTile(sums[m][n], fragment.words, column.words[2 * half], column.words[2 * half + 1], T{});
            }
        }
    }
}

template <int kFirst, int kCount, int kFilters, typename T>
__device__ inline void multiplyUnits(const Unit (&rows)[4], uint32_t weights, float (&sums)[2][kFilters / 8][4]) {
    if constexpr (sizeof(T) == sizeof(float)) {
        multiplyFloats<kFirst, kCount, kFilters>(rows, weights, sums);
    } else {
        multiplyHalves<kFirst, kCount, kFilters, T>(rows, weights, sums);
    }
}

}  // namespace sparse
}  // namespace trtsmith
