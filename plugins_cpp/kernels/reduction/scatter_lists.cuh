// Lists of the rows of each segment. Where a list lies, and in which order it is written, depends on who comes first; those
// of sums are sorted then: by the warp that reads them where they are short, by a block where they are long.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/dispatch.cuh"
#include "kernels/reduction/indexed_reduction.cuh"
#include "kernels/warp.cuh"

namespace trtsmith {
namespace scatter_lists {

constexpr int32_t kThreads = 256;
constexpr int32_t kSortThreads = 512;
constexpr int32_t kShared = 4096;  // rows that a block sorts in shared memory
constexpr int32_t kNoRow = 0x7fffffff;

struct State {
    const void* index;
    bool wide;
    int64_t rows;
    int64_t segments;
    int32_t* counts;  // [segments], then of all lists and of long ones
    int32_t* used;    // how much of `list` is given away
    int32_t* nbLong;
    int32_t* starts;    // [segments]
    int32_t* places;    // [rows], of a row in its list, or -1
    int32_t* list;      // [rows]
    int32_t* longOnes;  // the segments of more than a warp's rows
    int32_t* count;     // see IndexedReductionParams
};

__device__ inline int64_t segmentOf(const State& s, int64_t row) {
    const int64_t segment =
        s.wide ? static_cast<const int64_t*>(s.index)[row] : int64_t{static_cast<const int32_t*>(s.index)[row]};
    return segment >= 0 && segment < s.segments ? segment : -1;
}

static __global__ void __launch_bounds__(kThreads) countKernel(const __grid_constant__ State s) {
    int32_t end = 0;
    const int64_t step = int64_t{gridDim.x} * kThreads;
    for (int64_t row = int64_t{blockIdx.x} * kThreads + threadIdx.x; row < s.rows; row += step) {
        const int64_t segment = segmentOf(s, row);
        s.places[row] = segment < 0 ? -1 : atomicAdd(s.counts + segment, 1);
        end = segment >= end ? static_cast<int32_t>(segment) + 1 : end;
    }
    if (s.count != nullptr) {
        end = warpMax(end);
        if (threadIdx.x % kWarp == 0 && end > 0) {
            atomicMax(s.count, end);
        }
    }
}

static __global__ void __launch_bounds__(kThreads) startKernel(const __grid_constant__ State s) {
    const int32_t lane = static_cast<int32_t>(threadIdx.x) % kWarp;
    const int64_t step = int64_t{gridDim.x} * kThreads;
    for (int64_t base = int64_t{blockIdx.x} * kThreads + threadIdx.x - lane; base < s.segments; base += step) {
        const int64_t segment = base + lane;
        const int32_t count = segment < s.segments ? s.counts[segment] : 0;
        int32_t end = count;
#pragma unroll
        for (int lanes = 1; lanes < kWarp; lanes *= 2) {
            const int32_t other = __shfl_up_sync(kAllLanes, end, lanes);
            end += lane >= lanes ? other : 0;
        }
        int32_t start = lane == kWarp - 1 && end > 0 ? atomicAdd(s.used, end) : 0;
        start = __shfl_sync(kAllLanes, start, kWarp - 1);
        if (segment < s.segments) {
            s.starts[segment] = start + end - count;
        }
        if (count > kWarp) {
            s.longOnes[atomicAdd(s.nbLong, 1)] = static_cast<int32_t>(segment);
        }
    }
}

static __global__ void __launch_bounds__(kThreads) fillKernel(const __grid_constant__ State s) {
    const int64_t step = int64_t{gridDim.x} * kThreads;
    for (int64_t row = int64_t{blockIdx.x} * kThreads + threadIdx.x; row < s.rows; row += step) {
        const int32_t place = s.places[row];
        if (place >= 0) {
            s.list[s.starts[segmentOf(s, row)] + place] = static_cast<int32_t>(row);
        }
    }
}

// Bitonic, by a block, of any number of items: every exchange puts the smaller one first, so that those behind the end may
// be taken for the largest that there are, and stay where they are.
__device__ inline void sortBlock(int32_t* items, int64_t count) {
    for (int64_t width = 2; width / 2 < count; width *= 2) {
        for (int64_t step = width / 2; step > 0; step /= 2) {
            const bool mirrored = step == width / 2;
            for (int64_t i = threadIdx.x; i < count; i += kSortThreads) {
                const int64_t other = mirrored ? (i ^ (width - 1)) : (i ^ step);
                if (other > i && other < count && items[i] > items[other]) {
                    const int32_t item = items[i];
                    items[i] = items[other];
                    items[other] = item;
                }
            }
            __syncthreads();
        }
    }
}

static __global__ void __launch_bounds__(kSortThreads) sortKernel(const __grid_constant__ State s) {
    __shared__ int32_t items[kShared];
    const int32_t nbLong = *s.nbLong;
    for (int32_t i = static_cast<int32_t>(blockIdx.x); i < nbLong; i += static_cast<int32_t>(gridDim.x)) {
        const int32_t segment = s.longOnes[i];
        int32_t* const list = s.list + s.starts[segment];
        const int32_t count = s.counts[segment];
        if (count > kShared) {
            sortBlock(list, count);
            continue;
        }
        for (int32_t k = static_cast<int32_t>(threadIdx.x); k < count; k += kSortThreads) {
            items[k] = list[k];
        }
        __syncthreads();
        sortBlock(items, count);
        for (int32_t k = static_cast<int32_t>(threadIdx.x); k < count; k += kSortThreads) {
            list[k] = items[k];
        }
        __syncthreads();
    }
}

// Fills the lists; `sorted` says whether their order matters.
inline cudaError_t makeLists(const State& s, bool sorted, cudaStream_t stream) {
    constexpr unsigned int kSortBlocks = 528;  // four for each multiprocessor of an H200; a list is a block's at a time
    const size_t zeros = static_cast<size_t>(s.segments + 2) * sizeof(int32_t);
    cudaError_t status = cudaMemsetAsync(s.counts, 0, zeros, stream);
    if (status == cudaSuccess && s.count != nullptr) {
        status = cudaMemsetAsync(s.count, 0, sizeof(int32_t), stream);
    }
    if (status != cudaSuccess || s.rows == 0 || s.segments == 0) {
        return status;
    }
    const unsigned int byRows = gridBlocks(ceilDivide(s.rows, kThreads));
    status = launch(countKernel, byRows, kThreads, 0, stream, s);
    if (status == cudaSuccess) {
        status = launch(startKernel, gridBlocks(ceilDivide(s.segments, kThreads)), kThreads, 0, stream, s);
    }
    if (status == cudaSuccess) {
        status = launch(fillKernel, byRows, kThreads, 0, stream, s);
    }
    if (status == cudaSuccess && sorted && s.rows > kWarp) {
        status = launch(sortKernel, kSortBlocks, kSortThreads, 0, stream, s);
    }
    return status;
}

}  // namespace scatter_lists
}  // namespace trtsmith
