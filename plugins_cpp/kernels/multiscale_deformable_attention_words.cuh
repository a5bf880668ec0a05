// Reading and adding samples of multi-scale deformable attention, 16 bytes of channels at a time.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>

#include "convert.cuh"
#include "widen.cuh"

namespace trtsmith {

template <int kVector>
__device__ inline void clear(float (&sums)[kVector]) {
#pragma unroll
    for (int k = 0; k < kVector; ++k) {
        sums[k] = 0.0F;
    }
}

// Adds one word of channels, `factor` times.
template <typename T, int kVector>
__device__ inline void addWord(const uint4& word, float factor, float (&sums)[kVector]) {
    float values[kVector];
    widen(word, values, T{});
#pragma unroll
    for (int k = 0; k < kVector; ++k) {
        sums[k] = fmaf(factor, values[k], sums[k]);
    }
}

// base + a * b of global memory, in one instruction.
const __device__ inline char* advanced(const char* base, uint32_t a, uint32_t b) {
#ifdef __CUDA_ARCH__
    const char* result;
    asm("mad.wide.u32 %0, %1, %2, %3;" : "=l"(result) : "r"(a), "r"(b), "l"(base));
    __builtin_assume(__isGlobal(result));
    return result;
#else
    return base + uint64_t{a} * b;
#endif
}

// The 16 bytes at words + 16 * index + kOffset, through the read-only path. In assembly because the compiler otherwise
// recomputes the address from its parts for every load and holds loads back behind arithmetic.
template <int kOffset>
__device__ inline uint4 loadWord(const char* words, uint32_t index) {
    uint4 word{};
#ifdef __CUDA_ARCH__
    asm volatile(
        "{\n"
        ".reg .u64 address;\n"
        "mad.wide.u32 address, %5, 16, %4;\n"
        "ld.global.nc.v4.u32 {%0, %1, %2, %3}, [address+%6];\n"
        "}"
        : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
        : "l"(words), "r"(index), "n"(kOffset));
#else
    memcpy(&word, words + int64_t{index} * 16 + kOffset, sizeof(word));
#endif
    return word;
}

// Adds the four neighbours of one sample, a word of each: the left two at `rows` (in words from `left`), the right two one
// row of value further. kRowBytes is that distance where it is known, an offset of the load; or 0, and `right` has it.
// Four loads are in flight before the first use.
template <typename T, int kRowBytes, int kVector>
__device__ inline void addSample(const char* left, const char* right, const uint2& rows, const float4& factor,
                                 float (&sums)[kVector]) {
    const char* const beside = kRowBytes != 0 ? left : right;
    const uint4 words[4] = {loadWord<0>(left, rows.x), loadWord<kRowBytes>(beside, rows.x), loadWord<0>(left, rows.y),
                            loadWord<kRowBytes>(beside, rows.y)};
    const float factors[4] = {factor.x, factor.y, factor.z, factor.w};
#pragma unroll
    for (int corner = 0; corner < 4; ++corner) {
        addWord<T>(words[corner], factors[corner], sums);
    }
}

// One sample as it comes from memory. Its location, or offset, is one load; the weight may be a logit.
template <typename T>
struct RawSample {
    typename WordOf<2 * static_cast<int>(sizeof(T))>::type position;
    T weight;
};

// Zeros where `valid` is false: nothing is read there.
template <typename T>
__device__ inline RawSample<T> loadSample(const char* position, const char* weight, bool valid) {
    RawSample<T> raw{};
    if (valid) {
        raw.position = __ldg(reinterpret_cast<const decltype(raw.position)*>(position));
        raw.weight = __ldg(reinterpret_cast<const T*>(weight));
    }
    return raw;
}

// The location, or offset, of a sample as (x, y).
template <typename T>
__device__ inline float2 positionOf(const RawSample<T>& raw) {
    T position[2];
    memcpy(static_cast<void*>(position), &raw.position, sizeof(raw.position));
    return make_float2(toFloat(position[0]), toFloat(position[1]));
}

}  // namespace trtsmith
