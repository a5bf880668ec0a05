// Reading and adding samples of multi-scale deformable attention, 16 bytes of channels at a time.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>

#include "convert.cuh"

namespace trtsmith {

constexpr uint32_t kNowhere = 0xffffffffU;  // index of a neighbour that must not be read

// 16 bytes through the read-only path; zeros for kNowhere. In assembly because the compiler otherwise recomputes the
// address from its parts for every load (9 instructions instead of 1) and holds loads back behind arithmetic.
__device__ inline uint4 loadWord(const uint4* words, uint32_t index) {
    uint4 word{};
#ifdef __CUDA_ARCH__
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        ".reg .u64 address;\n"
        "setp.ne.u32 p, %5, 0xffffffff;\n"
        "mad.wide.u32 address, %5, 16, %4;\n"
        "mov.u32 %0, 0;\n"
        "mov.u32 %1, 0;\n"
        "mov.u32 %2, 0;\n"
        "mov.u32 %3, 0;\n"
        "@p ld.global.nc.v4.u32 {%0, %1, %2, %3}, [address];\n"
        "}"
        : "=&r"(word.x), "=&r"(word.y), "=&r"(word.z), "=&r"(word.w)
        : "l"(words), "r"(index));
#else
    if (index != kNowhere) {
        word = words[index];
    }
#endif
    return word;
}

__device__ inline void widen(const uint4& word, float (&values)[4], float) {
    memcpy(static_cast<void*>(values), &word, sizeof(word));
}

__device__ inline void widen(const uint4& word, float (&values)[8], __half) {
    __half2 pairs[4];
    memcpy(static_cast<void*>(pairs), &word, sizeof(word));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float2 pair = __half22float2(pairs[i]);
        values[2 * i] = pair.x;
        values[2 * i + 1] = pair.y;
    }
}

__device__ inline void widen(const uint4& word, float (&values)[8], __nv_bfloat16) {
    uint32_t pairs[4];
    memcpy(pairs, &word, sizeof(word));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const uint32_t pair[2] = {pairs[i] << 16, pairs[i] & 0xffff0000U};
        memcpy(values + 2 * i, pair, sizeof(pair));
    }
}

// Adds the four neighbours of one sample, a word of each. Four loads are in flight before the first use.
template <typename T, int kVector>
__device__ inline void addSample(const uint4* value, const uint4& index, const float4& factor, float (&sums)[kVector]) {
    const uint4 words[4] = {loadWord(value, index.x), loadWord(value, index.y), loadWord(value, index.z),
                            loadWord(value, index.w)};
    const float factors[4] = {factor.x, factor.y, factor.z, factor.w};
#pragma unroll
    for (int corner = 0; corner < 4; ++corner) {
        float values[kVector];
        widen(words[corner], values, T{});
#pragma unroll
        for (int k = 0; k < kVector; ++k) {
            sums[k] = fmaf(factors[corner], values[k], sums[k]);
        }
    }
}

// One sample as it comes from memory. A pair of locations is one load.
template <typename T>
struct RawSample {
    typename WordOf<2 * static_cast<int>(sizeof(T))>::type location;
    T weight;
};

template <typename T>
__device__ inline RawSample<T> loadSample(const T* locations, const T* weights, int sample, bool valid) {
    RawSample<T> raw{};
    if (valid) {
        raw.location = __ldg(reinterpret_cast<const decltype(raw.location)*>(locations) + sample);
        raw.weight = __ldg(weights + sample);
    }
    return raw;
}

}  // namespace trtsmith
