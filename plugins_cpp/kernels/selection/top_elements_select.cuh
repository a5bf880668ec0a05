// Finds the elements that are wanted of long rows, with all blocks: a radix select of the last key that is wanted, digit by
// digit from the first, then these and the better ones in the order of their places.
#pragma once

#include <cstdint>

#include "kernels/enumerate.cuh"
#include "kernels/selection/top_elements_state.cuh"

namespace trtsmith {
namespace top_elements_detail {

constexpr int kSelectThreads = 256;
constexpr int kSelectWarps = kSelectThreads / 32;
constexpr int kSelectRounds = static_cast<int>(kSelectTile / kSelectThreads);

// The digit of the last key that is wanted, from the counts of all, which become 0 again; by one block.
__device__ inline void chooseDigit(const Plan& plan, int64_t row, uint32_t* histogram, int width, Selected known,
                                   int64_t* sums) {
    const int thread = static_cast<int>(threadIdx.x);
    constexpr int kEach = kDigits / kSelectThreads;
    int64_t counts[kEach];
    int64_t sum = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
        counts[i] = __ldcg(histogram + thread * kEach + i);
        histogram[thread * kEach + i] = 0;
        sum += counts[i];
    }
    int64_t total = 0;
    int64_t before = enumerate_detail::exclusiveSum<kSelectThreads>(sum, sums, total);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
        if (before < known.wanted && before + counts[i] >= known.wanted) {  // of one digit of one thread
            const auto digit = static_cast<uint32_t>(thread * kEach + i);
            plan.selected[row] = {known.prefix << width | digit, known.wanted - static_cast<uint32_t>(before), 0, 0};
        }
        before += counts[i];
    }
}

// Counts the digits of `width` bits from `shift` on of keys whose bits before are known. The block that is the last of a row
// chooses its digit.
static __global__ void __launch_bounds__(kSelectThreads) histogramKernel(Plan plan, int pass, int shift, int width) {
    __shared__ uint32_t histogram[kDigits];
    __shared__ int64_t sums[kSelectWarps];
    __shared__ bool last;
    const int thread = static_cast<int>(threadIdx.x);
    for (int64_t work = blockIdx.x; work < plan.rows * plan.tiles; work += gridDim.x) {
        const int64_t row = work / plan.tiles;
        const int64_t begin = work % plan.tiles * kSelectTile;
        const int64_t source = plan.firstOf(row);
        Selected known = plan.selected[row];
        if (pass == 0) {
            known.wanted = static_cast<uint32_t>(plan.shape.count);
        }
        for (int i = thread; i < kDigits; i += kSelectThreads) {
            histogram[i] = 0;
        }
        __syncthreads();
        uint32_t bits[kSelectRounds];
        plan.load(source, begin + thread, kSelectThreads, bits);
#pragma unroll
        for (int round = 0; round < kSelectRounds; ++round) {
            const uint32_t key = plan.keyOf(bits[round]);
            bool counts = begin + round * kSelectThreads + thread < plan.shape.size;
            counts = counts && (pass == 0 || key >> (shift + width) == known.prefix);
            const unsigned int active = __ballot_sync(kAllLanes, counts);
            if (counts) {
                const uint32_t digit = key >> shift & ((1U << width) - 1U);
                const unsigned int same = __match_any_sync(active, digit);
                if (thread % 32 == __ffs(static_cast<int>(same)) - 1) {
                    atomicAdd(histogram + digit, static_cast<uint32_t>(__popc(same)));
                }
            }
        }
        __syncthreads();
        uint32_t* const all = plan.histogram + row * kDigits;
        for (int i = thread; i < kDigits; i += kSelectThreads) {
            if (histogram[i] != 0) {
                atomicAdd(all + i, histogram[i]);
            }
        }
        __threadfence();
        __syncthreads();
        if (thread == 0) {
            last = atomicAdd(&plan.selected[row].blocks, 1U) + 1 == static_cast<uint32_t>(plan.tiles);
        }
        __syncthreads();
        if (last) {
            __threadfence();
            chooseDigit(plan, row, all, width, known, sums);
        }
        __syncthreads();
    }
}

// Of a warp's part of a tile, 32 elements a round: which ones are before the last key that is wanted, and which are equal.
struct Flags {
    unsigned int before[kSelectRounds];
    unsigned int equal[kSelectRounds];
    uint32_t beforeCount;
    uint32_t equalCount;
};

__device__ inline void flagsOf(const Plan& plan, int64_t source, int64_t begin, uint32_t last, Flags& flags) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    uint32_t bits[kSelectRounds];
    plan.load(source, begin + lane, 32, bits);
    flags.beforeCount = 0;
    flags.equalCount = 0;
#pragma unroll
    for (int round = 0; round < kSelectRounds; ++round) {
        const int64_t place = begin + round * 32 + lane;
        const bool there = place < plan.shape.size;
        const uint32_t key = plan.keyOf(bits[round]);
        flags.before[round] = __ballot_sync(kAllLanes, there && key < last);
        flags.equal[round] = __ballot_sync(kAllLanes, there && key == last);
        flags.beforeCount += static_cast<uint32_t>(__popc(flags.before[round]));
        flags.equalCount += static_cast<uint32_t>(__popc(flags.equal[round]));
    }
}

static __global__ void __launch_bounds__(kSelectThreads) countKernel(Plan plan) {
    __shared__ uint2 counts[kSelectWarps];
    const int warp = static_cast<int>(threadIdx.x) / 32;
    for (int64_t work = blockIdx.x; work < plan.rows * plan.tiles; work += gridDim.x) {
        const int64_t row = work / plan.tiles;
        const int64_t begin = work % plan.tiles * kSelectTile + warp * kSelectRounds * 32;
        Flags flags;
        flagsOf(plan, plan.firstOf(row), begin, plan.selected[row].prefix, flags);
        if (threadIdx.x % 32 == 0) {
            counts[warp] = {flags.beforeCount, flags.equalCount};
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            uint2 sum{0, 0};
            for (const uint2& count : counts) {
                sum.x += count.x;
                sum.y += count.y;
            }
            plan.tileCounts[work] = sum;
        }
        __syncthreads();
    }
}

static __global__ void __launch_bounds__(kSelectThreads) gatherKernel(Plan plan) {
    __shared__ uint2 counts[kSelectWarps];
    __shared__ int64_t sums[kSelectWarps];
    const int thread = static_cast<int>(threadIdx.x);
    const int warp = thread / 32;
    const int lane = thread % 32;
    for (int64_t work = blockIdx.x; work < plan.rows * plan.tiles; work += gridDim.x) {
        const int64_t row = work / plan.tiles;
        const int64_t tile = work % plan.tiles;
        const int64_t begin = tile * kSelectTile + warp * kSelectRounds * 32;
        const int64_t source = plan.firstOf(row);
        const Selected known = plan.selected[row];
        int64_t before = 0;  // of tiles before, in this thread's share of them
        int64_t equal = 0;
        for (int64_t i = thread; i < tile; i += kSelectThreads) {
            before += plan.tileCounts[row * plan.tiles + i].x;
            equal += plan.tileCounts[row * plan.tiles + i].y;
        }
        int64_t allBefore = 0;
        int64_t allEqual = 0;
        static_cast<void>(enumerate_detail::exclusiveSum<kSelectThreads>(before, sums, allBefore));
        static_cast<void>(enumerate_detail::exclusiveSum<kSelectThreads>(equal, sums, allEqual));
        Flags flags;
        flagsOf(plan, source, begin, known.prefix, flags);
        if (lane == 0) {
            counts[warp] = {flags.beforeCount, flags.equalCount};
        }
        __syncthreads();
        for (int w = 0; w < warp; ++w) {
            allBefore += counts[w].x;
            allEqual += counts[w].y;
        }
        const unsigned int earlier = (1U << lane) - 1U;
#pragma unroll
        for (int round = 0; round < kSelectRounds; ++round) {
            const bool isBefore = (flags.before[round] >> lane & 1U) != 0;
            const bool isEqual = (flags.equal[round] >> lane & 1U) != 0;
            const int64_t beforeHere = allBefore + __popc(flags.before[round] & earlier);
            const int64_t equalHere = allEqual + __popc(flags.equal[round] & earlier);
            if (isBefore || (isEqual && equalHere < known.wanted)) {
                const int64_t taken = equalHere < known.wanted ? equalHere : known.wanted;
                const int64_t to = row * plan.shape.count + beforeHere + taken;
                const int64_t place = begin + round * 32 + lane;
                plan.keys[to] = static_cast<uint32_t>(plan.keyAt(source, place));
                plan.places[to] = static_cast<uint32_t>(place);
            }
            allBefore += __popc(flags.before[round]);
            allEqual += __popc(flags.equal[round]);
        }
        __syncthreads();
    }
}

inline cudaError_t selectWanted(const Plan& plan, cudaStream_t stream) {
    const unsigned int blocks = gridBlocks(plan.rows * plan.tiles);
    cudaError_t status = cudaMemsetAsync(plan.histogram, 0, plan.cleared, stream);
    int pass = 0;
    for (int left = keyBits(plan.params.type); status == cudaSuccess && left > 0; ++pass) {
        const int width = left < kDigitBits ? left : kDigitBits;
        left -= width;
        status = launch(histogramKernel, blocks, kSelectThreads, 0, stream, plan, pass, left, width);
    }
    if (status == cudaSuccess) {
        status = launch(countKernel, blocks, kSelectThreads, 0, stream, plan);
    }
    if (status == cudaSuccess) {
        status = launch(gatherKernel, blocks, kSelectThreads, 0, stream, plan);
    }
    return status;
}

}  // namespace top_elements_detail
}  // namespace trtsmith
