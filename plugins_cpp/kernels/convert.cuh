// Loads and stores of one or several elements, widened to fp32 and rounded back. Every kernel accumulates in fp32.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstring>

namespace trtsmith {

__device__ inline float toFloat(float value) { return value; }
__device__ inline float toFloat(__half value) { return __half2float(value); }
__device__ inline float toFloat(__nv_bfloat16 value) { return __bfloat162float(value); }

template <typename T>
__device__ inline T fromFloat(float value);
template <>
__device__ inline float fromFloat<float>(float value) {
    return value;
}
template <>
__device__ inline __half fromFloat<__half>(float value) {
    return __float2half_rn(value);
}
template <>
__device__ inline __nv_bfloat16 fromFloat<__nv_bfloat16>(float value) {
    return __float2bfloat16_rn(value);
}

// The type whose load or store is one instruction of that many bytes.
template <int kBytes>
struct WordOf;
template <>
struct WordOf<2> {
    using type = unsigned short;
};
template <>
struct WordOf<4> {
    using type = unsigned int;
};
template <>
struct WordOf<8> {
    using type = uint2;
};
template <>
struct WordOf<16> {
    using type = uint4;
};

// Reads kCount consecutive elements in one load through the read-only path, or gives zeros without reading when
// `valid` is false: a predicate instead of a branch, so that several loads are in flight before the first use. The
// address must be a multiple of kCount * sizeof(T), and nothing may write that memory during the launch.
template <int kCount, typename T>
__device__ inline void loadElements(const T* source, bool valid, T* elements) {
    constexpr int kBytes = kCount * static_cast<int>(sizeof(T));
    using Word = typename WordOf<kBytes>::type;
    Word word{};
    if (valid) {
        word = __ldg(reinterpret_cast<const Word*>(source));
    }
    memcpy(static_cast<void*>(elements), &word, sizeof(word));
}

// The same, widened.
template <int kCount, typename T>
__device__ inline void loadFloats(const T* source, bool valid, float (&values)[kCount]) {
    T elements[kCount];
    loadElements<kCount>(source, valid, elements);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
        values[i] = toFloat(elements[i]);
    }
}

template <typename T>
__device__ inline float loadFloat(const T* source, bool valid = true) {
    float value[1];
    loadFloats<1>(source, valid, value);
    return value[0];
}

// Writes kCount consecutive elements in one store. Same rule of alignment as loadFloats.
template <int kCount, typename T>
__device__ inline void storeFloats(T* target, const float (&values)[kCount]) {
    constexpr int kBytes = kCount * static_cast<int>(sizeof(T));
    using Word = typename WordOf<kBytes>::type;
    T elements[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
        elements[i] = fromFloat<T>(values[i]);
    }
    Word word;
    memcpy(&word, elements, sizeof(word));
    *reinterpret_cast<Word*>(target) = word;
}

}  // namespace trtsmith
