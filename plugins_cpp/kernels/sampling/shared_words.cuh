// Words of shared memory: brought from global memory without waiting, read from an address in a register.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>

#include "kernels/convert.cuh"

namespace trtsmith {

// Asynchronous where the architecture has that and the word is large enough; zeros, reading nothing, when not `valid`.
template <typename Word>
__device__ inline void copyToShared(char* target, const char* source, bool valid) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(target));
    const int bytes = valid ? static_cast<int>(sizeof(Word)) : 0;
    if constexpr (sizeof(Word) == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(source), "r"(bytes)
                     : "memory");
        return;
    } else if constexpr (sizeof(Word) >= 4) {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(address), "l"(source), "r"(bytes),
                     "n"(static_cast<int>(sizeof(Word)))
                     : "memory");
        return;
    }
#endif
    Word word{};
    if (valid) {
        word = *reinterpret_cast<const Word*>(source);
    }
    *reinterpret_cast<Word*>(target) = word;
}

__device__ inline void waitForCopies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// An address in shared memory, in a register of its own: the compiler otherwise computes it anew, from all its parts,
// for every load.
struct SharedAddress {
#ifdef __CUDA_ARCH__
    uint32_t at;

    __device__ explicit SharedAddress(const char* pointer)
        : at(static_cast<uint32_t>(__cvta_generic_to_shared(pointer))) {
        asm volatile("" : "+r"(at));
    }
    __device__ SharedAddress(SharedAddress base, uint32_t bytes) : at(base.at + bytes) {}

    __device__ uint4 word(uint32_t bytes) const {
        uint4 result;
        asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(result.x), "=r"(result.y), "=r"(result.z), "=r"(result.w)
                     : "r"(at + bytes));
        return result;
    }
    __device__ float number(int32_t index, float) const {
        float result;
        asm volatile("ld.shared.f32 %0, [%1];" : "=f"(result) : "r"(at + static_cast<uint32_t>(index) * 4U));
        return result;
    }
    template <typename T>
    __device__ float number(int32_t index, T) const {
        uint16_t bits;
        asm volatile("ld.shared.u16 %0, [%1];" : "=h"(bits) : "r"(at + static_cast<uint32_t>(index) * 2U));
        T result;
        memcpy(static_cast<void*>(&result), &bits, sizeof(result));
        return toFloat(result);
    }
#else
    const char* at;

    explicit SharedAddress(const char* pointer) : at(pointer) {}
    SharedAddress(SharedAddress base, uint32_t bytes) : at(base.at + static_cast<int32_t>(bytes)) {}

    uint4 word(uint32_t bytes) const { return *reinterpret_cast<const uint4*>(at + bytes); }
    template <typename T>
    float number(int32_t index, T) const {
        return toFloat(reinterpret_cast<const T*>(at)[index]);
    }
#endif
};

}  // namespace trtsmith
