// A stable merge sort of items in device memory. The result is the same in every run, and the workspace is a second array:
// CUB's device-wide sorts say only on a GPU how much they need, and engines are built without.
//
// Tiles are sorted in shared memory, then runs are merged two by two. An item's place after a merge is its place in its
// own run plus its rank in the other, found by bisection; a block first bisects for its first and last item, between whose
// ranks lie those of all its items.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "dispatch.cuh"

namespace trtsmith {
namespace merge_sort_detail {

constexpr int kThreads = 256;
constexpr int kBlocks = 4;  // of a multiprocessor: told none, ptxas takes 40 registers and spills what comparisons need
constexpr int kItems = 4;
constexpr int kTile = kThreads * kItems;

// How many of the sorted items [low, high) come before `item`: those that are less, and where `after` those that are equal.
template <typename Item, typename Less>
__device__ int64_t rank(const Item* items, int64_t low, int64_t high, const Item& item, bool after, const Less& less) {
    const int64_t first = low;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const bool before = after ? !less(item, items[middle]) : less(items[middle], item);
        if (before) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low - first;
}

// size: null, or how many of the first `most` items are there.
template <typename Item, typename Less>
__global__ void __launch_bounds__(kThreads, kBlocks)
    tileKernel(Item* items, int64_t most, const int64_t* size, int64_t nbTiles, Less less) {
    const int64_t n = size != nullptr ? *size : most;
    __shared__ Item buffers[2][kTile];
    const int thread = static_cast<int>(threadIdx.x);
    for (int64_t tile = blockIdx.x; tile < nbTiles; tile += gridDim.x) {
        Item* const own = items + tile * kTile;
        const int64_t left = n - tile * kTile;
        if (left <= 0) {
            break;
        }
        const int count = left < kTile ? static_cast<int>(left) : kTile;
        for (int i = thread; i < count; i += kThreads) {
            buffers[0][i] = own[i];
        }
        int from = 0;
        for (int width = 1; width < kTile; width *= 2) {
            __syncthreads();
            for (int i = thread; i < count; i += kThreads) {
                const Item item = buffers[from][i];
                const int start = i / (2 * width) * (2 * width);
                const int middle = start + width < count ? start + width : count;
                const int end = start + 2 * width < count ? start + 2 * width : count;
                const bool first = i < middle;
                const int64_t others =
                    rank(buffers[from], first ? middle : start, first ? end : middle, item, !first, less);
                buffers[1 - from][(first ? i : i - (middle - start)) + others] = item;
            }
            from = 1 - from;
        }
        __syncthreads();
        for (int i = thread; i < count; i += kThreads) {
            own[i] = buffers[from][i];
        }
        __syncthreads();
    }
}

// Merges runs of `width`, a multiple of a tile, two by two.
template <typename Item, typename Less>
__global__ void __launch_bounds__(kThreads, kBlocks)
    mergeKernel(const Item* from, Item* to, int64_t most, const int64_t* size, int64_t nbTiles, int64_t width,
                Less less) {
    const int64_t n = size != nullptr ? *size : most;
    __shared__ int64_t bounds[2];
    const int thread = static_cast<int>(threadIdx.x);
    for (int64_t tile = blockIdx.x; tile < nbTiles; tile += gridDim.x) {
        const int64_t begin = tile * kTile;
        if (begin >= n) {
            break;
        }
        const int64_t stop = begin + kTile < n ? begin + kTile : n;
        const int64_t start = begin / (2 * width) * (2 * width);
        const int64_t middle = start + width < n ? start + width : n;
        const int64_t end = start + 2 * width < n ? start + 2 * width : n;
        const bool first = begin < middle;
        const int64_t low = first ? middle : start;
        const int64_t high = first ? end : middle;
        if (thread < 2) {
            const Item item = from[thread == 0 ? begin : stop - 1];
            bounds[thread] = rank(from, low, high, item, !first, less);
        }
        __syncthreads();
        for (int64_t i = begin + thread; i < stop; i += kThreads) {
            const Item item = from[i];
            const int64_t others = bounds[0] + rank(from, low + bounds[0], low + bounds[1], item, !first, less);
            to[(first ? i : i - (middle - start)) + others] = item;
        }
        __syncthreads();
    }
}

}  // namespace merge_sort_detail

// Sorts n items by `less(a, b)`, which must be a strict weak order; equal ones keep their order. `spare` is as large as
// `items`; `sorted` says in which of the two the result is. Where `size` is given, it is on the device, and only so many of
// the n items are there.
template <typename Item, typename Less>
cudaError_t mergeSort(Item* items, Item* spare, int64_t n, const Less& less, Item*& sorted, cudaStream_t stream,
                      const int64_t* size = nullptr) {
    namespace detail = merge_sort_detail;
    sorted = items;
    if (n < 0 || n > kMaxElements) {
        return cudaErrorInvalidValue;
    }
    if (n == 0) {
        return cudaSuccess;
    }
    const int64_t nbTiles = ceilDivide(n, detail::kTile);
    const unsigned int blocks = gridBlocks(nbTiles);
    cudaError_t status =
        launch(detail::tileKernel<Item, Less>, blocks, detail::kThreads, 0, stream, items, n, size, nbTiles, less);
    for (int64_t width = detail::kTile; status == cudaSuccess && width < n; width *= 2) {
        Item* const other = sorted == items ? spare : items;
        status = launch(detail::mergeKernel<Item, Less>, blocks, detail::kThreads, 0, stream,
                        static_cast<const Item*>(sorted), other, n, size, nbTiles, width, less);
        sorted = other;
    }
    return status;
}

}  // namespace trtsmith
