// What both kernels of the selective scan compute for a token, and how they read and write tokens of a row.
#pragma once

#include "kernels/convert.cuh"
#include "kernels/dispatch.cuh"
#include "kernels/exp2.cuh"
#include "kernels/state_space_scan.cuh"

namespace trtsmith {

// exp(-|x|) with what float32 loses of |x| log2(e), which is a relative error of |x| times 1e-7 otherwise.
__device__ inline float expOfMinus(float x) {
    constexpr float kRest = 1.925963033e-8F;  // log2(e) - kLog2E
    constexpr float kLn2 = 0.69314718F;
    constexpr float kLeast = 100.0F;  // exp of less is 0, and infinity has no rest
    const float magnitude = fabsf(x);
    const float product = kLog2E * magnitude;
    const float rest = magnitude < kLeast ? fmaf(magnitude, kRest, fmaf(kLog2E, magnitude, -product)) : 0.0F;
    const float q = exp2Fast(-product);
    return fmaf(-kLn2 * rest, q, q);
}

// max(x, 0) + log(1 + q), q = exp(-|x|): a polynomial in q, of relative error 1.3e-7 in float32. log1pf has branches.
__device__ inline float softplus(float x) {
    const float q = expOfMinus(x);
    float sum = -0.00324385893F;
    for (const float next : {0.0198507123F, -0.0569581278F, 0.106035121F, -0.153055087F, 0.196759105F, -0.249541283F,
                             0.333299607F, -0.499999017F, 1.0F}) {
        sum = fmaf(sum, q, next);
    }
    return fmaf(sum, q, fmaxf(x, 0.0F));
}

__device__ inline float silu(float x) {
    const float q = expOfMinus(x);
    return __fdividef(x < 0.0F ? x * q : x, 1.0F + q);
}

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
