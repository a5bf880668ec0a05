// What the lanes of a warp share: their number, the mask of all, and one value made of each lane's.
#pragma once

namespace trtsmith {

constexpr int kWarp = 32;
constexpr unsigned int kAllLanes = 0xffffffffU;

template <typename T>
__device__ inline T warpSum(T value) {
#pragma unroll
    for (int apart = kWarp / 2; apart > 0; apart /= 2) {
        value += __shfl_xor_sync(kAllLanes, value, apart);
    }
    return value;
}

template <typename T>
__device__ inline T warpMax(T value) {
#pragma unroll
    for (int apart = kWarp / 2; apart > 0; apart /= 2) {
        const T other = __shfl_xor_sync(kAllLanes, value, apart);
        value = other > value ? other : value;
    }
    return value;
}

__device__ inline int warpMax(int value) {
#if __CUDA_ARCH__ >= 800
    return __reduce_max_sync(kAllLanes, value);
#else
    return warpMax<int>(value);
#endif
}

__device__ inline int warpMin(int value) { return ~warpMax(~value); }

}  // namespace trtsmith
