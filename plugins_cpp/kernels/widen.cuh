// The elements of a word of 16 bytes as floats.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>

namespace trtsmith {

// The last argument tells the type. A bfloat16 is the upper half of a float: here that is one
// instruction, and with __bfloat162float it would be two for every other element.
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

}  // namespace trtsmith
