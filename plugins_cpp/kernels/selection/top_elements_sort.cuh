// Sorts a row of keys in shared memory, in one block: a stable radix sort by digits of 8 bits, from the last to the first.
//
// A warp has 32 * Items keys that follow each other, and takes them 32 at a time. What it counts of each digit is its own, so
// that no atomics are needed, and keys of equal digits keep their order: equal keys stay in the order of their places.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/selection/top_elements_state.cuh"
#include "kernels/warp.cuh"

namespace trtsmith {
namespace top_elements_detail {

constexpr int kSortThreads = 1024;
constexpr int kSortWarps = kSortThreads / 32;
constexpr int kRadixBits = 8;
constexpr int kRadix = 1 << kRadixBits;
constexpr int kCountStride =
    kSortWarps + 2;  // 17 words: counts of one warp and different digits are in different banks
constexpr int kCountsOfThread = kRadix * kSortWarps / kSortThreads;
static_assert(kSortWarps == 32 && kSortWarps % kCountsOfThread == 0, "a thread adds counts of one digit");

template <int Items>
constexpr int sortSharedBytes() {
    return Items * kSortThreads * static_cast<int>(sizeof(uint32_t) + sizeof(uint16_t)) +
           kRadix * kCountStride * static_cast<int>(sizeof(uint16_t));
}

// The lanes of a warp that have the same digit.
__device__ inline unsigned int sameDigit(unsigned int digit) {
    unsigned int same = kAllLanes;
#pragma unroll
    for (int bit = 0; bit < kRadixBits; ++bit) {
        const bool set = (digit >> bit & 1U) != 0;
        const unsigned int others = __ballot_sync(kAllLanes, set);
        same &= set ? others : ~others;
    }
    return same;
}

// Counts become the numbers of keys with a lower digit, or the same one of an earlier warp.
__device__ inline void sumCounts(uint16_t* counts, uint32_t* sums) {
    const int thread = static_cast<int>(threadIdx.x);
    const int warp = thread / 32;
    const int lane = thread % 32;
    constexpr int kEach = kSortWarps / kCountsOfThread;  // threads of a digit
    uint16_t* const own = counts + thread / kEach * kCountStride + thread % kEach * kCountsOfThread;
    const auto sumInWarp = [lane](uint32_t value) {
        for (int step = 1; step < 32; step *= 2) {
            const uint32_t other = __shfl_up_sync(kAllLanes, value, static_cast<unsigned int>(step));
            value += lane >= step ? other : 0;
        }
        return value;
    };
    uint32_t sum = 0;
#pragma unroll
    for (int i = 0; i < kCountsOfThread; ++i) {
        sum += own[i];
    }
    const uint32_t inclusive = sumInWarp(sum);
    if (lane == 31) {
        sums[warp] = inclusive;
    }
    __syncthreads();
    const uint32_t ofWarps = sumInWarp(sums[lane]);
    const uint32_t earlier = __shfl_sync(kAllLanes, ofWarps, warp > 0 ? warp - 1 : 0);
    uint32_t before = (warp > 0 ? earlier : 0) + inclusive - sum;
#pragma unroll
    for (int i = 0; i < kCountsOfThread; ++i) {
        const uint32_t count = own[i];
        own[i] = static_cast<uint16_t>(before);
        before += count;
    }
}

// One block for each row. `selected`: the row's keys and places are those that were selected.
template <int Items>
__global__ void __launch_bounds__(kSortThreads) sortRowsKernel(Plan plan, bool selected, int bits) {
    extern __shared__ uint4 sortShared[];
    __shared__ uint32_t sums[kSortWarps];
    constexpr int kRoom = Items * kSortThreads;
    uint32_t* const keys = reinterpret_cast<uint32_t*>(sortShared);
    uint16_t* const ranks = reinterpret_cast<uint16_t*>(keys + kRoom);  // which of the row's keys
    uint16_t* const counts = ranks + kRoom;
    const int thread = static_cast<int>(threadIdx.x);
    const int warp = thread / 32;
    const int lane = thread % 32;
    const int first = warp * 32 * Items + lane;
    const unsigned int earlier = (1U << lane) - 1U;
    const int64_t n = selected ? plan.shape.count : plan.shape.size;
    for (int64_t row = blockIdx.x; row < plan.rows; row += gridDim.x) {
        const int64_t source = plan.firstOf(row);
        uint32_t key[Items];
        uint16_t rank[Items];
        if (!selected) {
            plan.load(source, first, 32, key);
        }
#pragma unroll
        for (int i = 0; i < Items; ++i) {
            const int at = first + i * 32;
            rank[i] = static_cast<uint16_t>(at);
            if (at >= n) {
                key[i] = 0xffffffffU;  // behind all others, whatever their keys: it comes after them
            } else {
                key[i] = selected ? plan.keys[row * n + at] : plan.keyOf(key[i]);
            }
        }
        for (int shift = 0; shift < bits; shift += kRadixBits) {
            for (int i = thread; i < kRadix * kCountStride / 2; i += kSortThreads) {
                reinterpret_cast<uint32_t*>(counts)[i] = 0;
            }
            __syncthreads();
            uint16_t before[Items];  // keys of the warp with the same digit
#pragma unroll
            for (int i = 0; i < Items; ++i) {
                const unsigned int digit = key[i] >> shift & (kRadix - 1U);
                const unsigned int same = sameDigit(digit);
                uint16_t* const count = counts + digit * kCountStride + warp;
                const unsigned int seen = *count;
                before[i] = static_cast<uint16_t>(seen + static_cast<unsigned int>(__popc(same & earlier)));
                __syncwarp();
                if ((same & earlier) == 0) {
                    *count = static_cast<uint16_t>(seen + static_cast<unsigned int>(__popc(same)));
                }
                __syncwarp();
            }
            __syncthreads();
            sumCounts(counts, sums);
            __syncthreads();
#pragma unroll
            for (int i = 0; i < Items; ++i) {
                const unsigned int digit = key[i] >> shift & (kRadix - 1U);
                const int to = counts[digit * kCountStride + warp] + before[i];
                keys[to] = key[i];
                ranks[to] = rank[i];
            }
            __syncthreads();
#pragma unroll
            for (int i = 0; i < Items; ++i) {
                key[i] = keys[first + i * 32];
                rank[i] = ranks[first + i * 32];
            }
        }
        for (int64_t i = thread; i < plan.shape.count; i += kSortThreads) {
            const int64_t place = ranks[i];
            plan.write(row, i, selected ? plan.places[row * n + place] : place);
        }
        __syncthreads();
    }
}

template <int Items>
cudaError_t sortRows(const Plan& plan, bool selected, cudaStream_t stream) {
    constexpr int kBytes = sortSharedBytes<Items>();
    const cudaError_t status = allowSharedBytes(sortRowsKernel<Items>, kBytes);
    return status == cudaSuccess ? launch(sortRowsKernel<Items>, gridBlocks(plan.rows), kSortThreads, kBytes, stream,
                                          plan, selected, keyBits(plan.params.type))
                                 : status;
}

// Whether a block of this GPU can sort so many keys.
inline cudaError_t canSort(bool& can) {
    int device = 0;
    int bytes = 0;
    cudaError_t status = cudaGetDevice(&device);
    if (status == cudaSuccess) {
        status = cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    }
    can = bytes >= sortSharedBytes<static_cast<int>(kSortable / kSortThreads)>() + 1024;
    return status;
}

}  // namespace top_elements_detail
}  // namespace trtsmith
