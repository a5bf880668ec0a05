// Counts the elements that are flagged, and visits every element with the number of flagged ones before it: the
// base of selecting, compacting and ranking. In order and the same in every run.
//
// Three launches: flagged elements of each tile, an exclusive scan of these, a visit of each tile. CUB's device-wide
// algorithms are not used, because they say only on a GPU how much workspace they need, and engines are built without.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <limits>

#include "dispatch.cuh"
#include "warp.cuh"

namespace trtsmith {
namespace enumerate_detail {

constexpr int kThreads = 256;
constexpr int kBlocks = 4;  // of a multiprocessor: told none, ptxas takes 40 registers and spills what long flags need
constexpr int kWarps = kThreads / kWarp;
constexpr int kRounds = 16;  // of a warp over a tile
constexpr int64_t kTile = int64_t{kThreads} * kRounds;
constexpr int kScanThreads = 1024;

inline int64_t tiles(int64_t n) { return ceilDivide(n, kTile); }

// Exclusive prefix sum of one value per thread over a block of `Threads`; `total` is the sum. Ends with a barrier, so
// that `sums` (one for each warp) can be used again.
template <int Threads>
__device__ int64_t exclusiveSum(int64_t value, int64_t* sums, int64_t& total) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    int64_t inclusive = value;
    for (int step = 1; step < kWarp; step *= 2) {
        const int64_t other = __shfl_up_sync(kAllLanes, inclusive, static_cast<unsigned int>(step));
        inclusive += lane >= step ? other : 0;
    }
    if (lane == kWarp - 1) {
        sums[warp] = inclusive;
    }
    __syncthreads();
    int64_t before = 0;
    total = 0;
    for (int w = 0; w < Threads / kWarp; ++w) {
        before += w < warp ? sums[w] : 0;
        total += sums[w];
    }
    __syncthreads();
    return before + inclusive - value;
}

// The flags of one warp's part of a tile, 32 consecutive elements a round; their number.
template <typename Flag>
__device__ int flagsOfWarp(const Flag& flag, int64_t first, int64_t n, unsigned int (&flags)[kRounds]) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    int count = 0;
#pragma unroll
    for (int round = 0; round < kRounds; ++round) {
        const int64_t at = first + round * kWarp + lane;
        flags[round] = __ballot_sync(kAllLanes, at < n && flag(at));
        count += __popc(flags[round]);
    }
    return count;
}

template <typename Flag>
__global__ void __launch_bounds__(kThreads, kBlocks)
    countKernel(Flag flag, int64_t n, int64_t nbTiles, int64_t* counts) {
    __shared__ int sums[kWarps];
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    for (int64_t tile = blockIdx.x; tile < nbTiles; tile += gridDim.x) {
        unsigned int flags[kRounds];
        const int count = flagsOfWarp(flag, tile * kTile + warp * (kWarp * kRounds), n, flags);
        if (threadIdx.x % kWarp == 0) {
            sums[warp] = count;
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            int64_t all = 0;
            for (int w = 0; w < kWarps; ++w) {
                all += sums[w];
            }
            counts[tile] = all;
        }
        __syncthreads();
    }
}

// counts[i] becomes the sum of those before it, in one block; `total` the sum of all.
template <int Threads, typename Total>
__global__ void __launch_bounds__(Threads) scanKernel(int64_t* counts, int64_t size, Total* total) {
    __shared__ int64_t sums[Threads / kWarp];
    int64_t before = 0;
    for (int64_t first = 0; first < size; first += Threads) {
        const int64_t at = first + threadIdx.x;
        int64_t all = 0;
        const int64_t sum = exclusiveSum<Threads>(at < size ? counts[at] : 0, sums, all);
        if (at < size) {
            counts[at] = before + sum;
        }
        before += all;
    }
    if (threadIdx.x == 0) {
        *total = static_cast<Total>(before);
    }
}

template <typename Flag, typename Visit>
__global__ void __launch_bounds__(kThreads, kBlocks)
    visitKernel(Flag flag, Visit visit, int64_t n, int64_t nbTiles, const int64_t* before) {
    __shared__ int sums[kWarps];
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    for (int64_t tile = blockIdx.x; tile < nbTiles; tile += gridDim.x) {
        unsigned int flags[kRounds];
        const int64_t first = tile * kTile + warp * (kWarp * kRounds);
        const int count = flagsOfWarp(flag, first, n, flags);
        if (lane == 0) {
            sums[warp] = count;
        }
        __syncthreads();
        int64_t seen = before[tile];
        for (int w = 0; w < warp; ++w) {
            seen += sums[w];
        }
        __syncthreads();
#pragma unroll
        for (int round = 0; round < kRounds; ++round) {
            const int64_t at = first + round * kWarp + lane;
            if (at < n) {
                const unsigned int earlier = flags[round] & ((1u << lane) - 1u);
                visit(at, (flags[round] >> lane & 1u) != 0, seen + __popc(earlier));
            }
            seen += __popc(flags[round]);
        }
    }
}

}  // namespace enumerate_detail

// values[i] becomes the sum of those before it, in place; `total` gets the sum of all, which must fit its type. One block:
// for short lists.
template <typename Total>
cudaError_t sumBefore(int64_t* values, int64_t n, Total* total, cudaStream_t stream) {
    namespace detail = enumerate_detail;
    return launch(detail::scanKernel<detail::kScanThreads, Total>, 1, detail::kScanThreads, 0, stream, values, n,
                  total);
}

// Bytes of workspace for n elements.
inline size_t enumerateWorkspace(int64_t n) {
    return n > 0 ? static_cast<size_t>(enumerate_detail::tiles(n)) * sizeof(int64_t) : 0;
}

// `flag(i)` says whether element i of n is flagged; it is called twice and must answer the same. `total` gets the number
// of flagged elements, before the first call of `visit(i, flagged, before)`, which has the number of flagged elements
// before i. Elements are visited in any order. Workspace as enumerateWorkspace says, aligned to 8 bytes. Returns
// cudaErrorInvalidValue where a Total (int32_t or int64_t) cannot hold n.
template <typename Flag, typename Visit, typename Total>
cudaError_t enumerate(const Flag& flag, int64_t n, Total* total, const Visit& visit, void* workspace,
                      cudaStream_t stream) {
    namespace detail = enumerate_detail;
    if (n < 0 || n > kMaxElements || n > std::numeric_limits<Total>::max() || total == nullptr ||
        (n > 0 && workspace == nullptr)) {
        return cudaErrorInvalidValue;
    }
    const int64_t nbTiles = detail::tiles(n);
    const unsigned int blocks = gridBlocks(nbTiles);
    auto* const counts = static_cast<int64_t*>(workspace);
    cudaError_t status = cudaSuccess;
    if (n > 0) {
        status = launch(detail::countKernel<Flag>, blocks, detail::kThreads, 0, stream, flag, n, nbTiles, counts);
    }
    if (status == cudaSuccess) {
        status = sumBefore(counts, nbTiles, total, stream);
    }
    if (status == cudaSuccess && n > 0) {
        status = launch(detail::visitKernel<Flag, Visit>, blocks, detail::kThreads, 0, stream, flag, visit, n, nbTiles,
                        static_cast<const int64_t*>(counts));
    }
    return status;
}

}  // namespace trtsmith
