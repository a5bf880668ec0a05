// What both kernels of the selective scan compute for a token, and how they read and write tokens of a row.
#pragma once

#include "kernels/convert.cuh"
#include "kernels/dispatch.cuh"
#include "kernels/state_space_scan.cuh"

namespace trtsmith {

constexpr float kLog2E = 1.4426950408889634F;

__device__ inline float exp2Fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// max(x, 0) + log(1 + q), q = exp(-|x|): a polynomial in q, of relative error 2e-7 in float32. log1pf has branches.
__device__ inline float softplus(float x) {
    const float q = exp2Fast(-kLog2E * fabsf(x));
    float sum = 0.0052326242F;
    for (const float next : {-0.029504957F, 0.078225493F, -0.13663207F, 0.19105989F, -0.24842977F, 0.33319095F,
                             -0.49999493F, 0.99999994F}) {
        sum = fmaf(sum, q, next);
    }
    return fmaf(sum, q, fmaxf(x, 0.0F));
}

__device__ inline float silu(float x) { return __fdividef(x, 1.0F + exp2Fast(-kLog2E * x)); }

// Consecutive tokens of a row; zeros behind its end. kWide: rows begin and end at multiples of 16 bytes.
template <bool kWide, typename T, int kCount>
__device__ void loadTokens(const T* row, int at, int length, T (&values)[kCount]) {
    constexpr int kMost = kWide ? 16 / static_cast<int>(sizeof(T)) : 1;
    constexpr int kWidth = kCount < kMost ? kCount : kMost;
#pragma unroll
    for (int i = 0; i < kCount; i += kWidth) {
        loadElements<kWidth>(row + at + i, at + i < length, values + i);
    }
}

template <bool kWide, typename T, int kCount>
__device__ void storeTokens(T* row, int at, int length, const float (&values)[kCount]) {
    constexpr int kMost = kWide ? 16 / static_cast<int>(sizeof(T)) : 1;
    constexpr int kWidth = kCount < kMost ? kCount : kMost;
#pragma unroll
    for (int i = 0; i < kCount; i += kWidth) {
        float part[kWidth];
#pragma unroll
        for (int j = 0; j < kWidth; ++j) {
            part[j] = values[i + j];
        }
        if (at + i < length) {
            storeFloats<kWidth>(row + at + i, part);
        }
    }
}

// Whether rows of all tensors begin at multiples of 16 bytes.
template <typename T>
bool rowsAreWide(const StateSpaceScanParams& p, int64_t length) {
    bool wide = length * static_cast<int64_t>(sizeof(T)) % 16 == 0;
    for (const void* rows : {p.u, p.delta, p.b, p.c, p.z, static_cast<const void*>(p.output)}) {
        wide = wide && isAligned(rows, 16);
    }
    return wide;
}

}  // namespace trtsmith
