// Gathers the best candidates of every image with all blocks, and finds how far classes go that may have only so many.
#pragma once

#include <cstdint>

#include "kernels/selection/detection_selection_bound.cuh"
#include "kernels/selection/detection_selection_state.cuh"

namespace trtsmith {
namespace detection_selection_detail {

constexpr int kTileThreads = 256;
constexpr int kTileItems = 8;
constexpr int64_t kTile = kTileThreads * kTileItems;

inline int64_t tilesOf(const Plan& plan) { return ceilDivide(plan.scores, kTile); }

// A thread has the keys of scores that are kTileThreads apart.
template <typename T>
__device__ inline void keysOfTile(const Plan& plan, int64_t image, int64_t tile, Key (&keys)[kTileItems]) {
    const int64_t first = tile * kTile + threadIdx.x;
#pragma unroll
    for (int i = 0; i < kTileItems; ++i) {
        const int64_t element = first + i * kTileThreads;
        keys[i] = element < plan.scores ? keyOf<T>(plan, image, static_cast<uint32_t>(element)) : kNone;
    }
}

// Calls use(image, keys) for every tile.
template <typename T, typename Use>
__device__ void eachTile(const Plan& plan, int64_t tiles, const Use& use) {
    for (int64_t work = blockIdx.x; work < plan.shape.batch * tiles; work += gridDim.x) {
        const int64_t image = work / tiles;
        Key keys[kTileItems];
        keysOfTile<T>(plan, image, work % tiles, keys);
        use(image, keys);
    }
}

// Adds 1 to a counter for every thread of a warp that has one: threads with the same counter add once.
__device__ inline void countInWarp(uint32_t* counters, uint32_t which, bool has) {
    const unsigned int active = __ballot_sync(kAllLanes, has);
    if (has) {
        const unsigned int peers = __match_any_sync(active, which);
        if (static_cast<int>(threadIdx.x % 32) == __ffs(static_cast<int>(peers)) - 1) {
            atomicAdd(counters + which, static_cast<uint32_t>(__popc(peers)));
        }
    }
}

// Adds the keys of a warp that are in bins before `end` to an image's chunk, as far as it has room.
__device__ inline void append(const Plan& plan, int64_t image, const Key (&keys)[kTileItems], uint32_t end) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    unsigned int count = 0;
#pragma unroll
    for (int i = 0; i < kTileItems; ++i) {
        count += keys[i] != kNone && static_cast<uint32_t>(keys[i] >> kBinShift) < end ? 1 : 0;
    }
    unsigned int inclusive = count;
    for (int step = 1; step < 32; step *= 2) {
        const unsigned int other = __shfl_up_sync(kAllLanes, inclusive, static_cast<unsigned int>(step));
        inclusive += lane >= step ? other : 0;
    }
    unsigned int at = 0;
    if (lane == 31 && inclusive > 0) {
        at = atomicAdd(plan.gathered + image, inclusive);
    }
    at = __shfl_sync(kAllLanes, at, 31) + inclusive - count;
#pragma unroll
    for (int i = 0; i < kTileItems; ++i) {
        if (keys[i] != kNone && static_cast<uint32_t>(keys[i] >> kBinShift) < end && at < kChunk) {
            plan.chunks[image * kChunk + at++] = keys[i];
        }
    }
}

// Counts candidates by bins; where there are no more than a chunk has room for, they are in it.
template <typename T>
__global__ void __launch_bounds__(kTileThreads) histogramKernel(Plan plan, int64_t tiles) {
    eachTile<T>(plan, tiles, [&plan](int64_t image, const Key(&keys)[kTileItems]) {
        bool any = false;
#pragma unroll
        for (int i = 0; i < kTileItems; ++i) {
            any |= keys[i] != kNone;
        }
        if (!__any_sync(kAllLanes, any)) {
            return;
        }
#pragma unroll
        for (int i = 0; i < kTileItems; ++i) {
            countInWarp(plan.histogram + image * kBins, static_cast<uint32_t>(keys[i] >> kBinShift), keys[i] != kNone);
        }
        append(plan, image, keys, kBins);
    });
}

// Candidates of every class, before there are limits.
template <typename T>
__global__ void __launch_bounds__(kTileThreads) classCountKernel(Plan plan, int64_t tiles) {
    eachTile<T>(plan, tiles, [&plan](int64_t image, const Key(&keys)[kTileItems]) {
#pragma unroll
        for (int i = 0; i < kTileItems; ++i) {
            const bool has = keys[i] != kNone;
            const uint32_t label = has ? placeOf(plan, keys[i]).label : 0;
            countInWarp(plan.classCounts + image * plan.shape.classes, label, has);
        }
    });
}

// The last candidate of a class that has too many; one block for each class of an image. `open` has no limits.
template <typename T>
__global__ void __launch_bounds__(kThreads) classLimitKernel(Plan open, int64_t segments) {
    __shared__ uint32_t histogram[kDigits];
    __shared__ Search search;
    for (int64_t segment = blockIdx.x; segment < segments; segment += gridDim.x) {
        Key last = kNone;
        if (static_cast<int64_t>(open.classCounts[segment]) > open.shape.topk) {
            const int64_t image = segment / open.shape.classes;
            const int64_t label = segment % open.shape.classes;
            const auto keyAt = [&open, image, label](int64_t box) {
                return keyOf<T>(open, image, static_cast<uint32_t>(box * open.shape.classes + label));
            };
            bool all = false;
            last = lastOfBest(keyAt, open.shape.boxes, 0, open.shape.topk, true, histogram, search, all);
        }
        if (threadIdx.x == 0) {
            open.classLimits[segment] = last;
        }
        __syncthreads();
    }
}

// The first bin with which there would be more than kChunk candidates; one block for each image. A warp has 2,048 bins.
static __global__ void __launch_bounds__(kThreads) firstBinKernel(Plan plan) {
    constexpr int kWarps = kThreads / 32;
    constexpr int kRounds = kBins / kThreads;
    __shared__ int64_t sums[kWarps];
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    for (int64_t image = blockIdx.x; image < plan.shape.batch; image += gridDim.x) {
        const uint32_t* const own = plan.histogram + image * kBins + warp * kRounds * 32;
        int64_t sum = 0;
#pragma unroll 8  // unrolled further it spills on sm_120
        for (int round = 0; round < kRounds; ++round) {
            sum += own[round * 32 + lane];
        }
        sum = warpSum(sum);
        if (lane == 0) {
            sums[warp] = sum;
        }
        __syncthreads();
        int64_t before = 0;
        int64_t total = 0;
        for (int w = 0; w < kWarps; ++w) {
            before += w < warp ? sums[w] : 0;
            total += sums[w];
        }
        if (threadIdx.x == 0) {
            if (total <= kChunk) {  // all are gathered
                plan.firstBins[image] = kBins;
                plan.firstCounts[image] = static_cast<uint32_t>(total);
            } else {
                plan.gathered[image] = 0;
            }
        }
        if (before <= kChunk && before + sum > kChunk) {  // one warp, all of its threads
#pragma unroll 1
            for (int round = 0; round < kRounds; ++round) {
                const int64_t count = own[round * 32 + lane];
                int64_t inclusive = count;
                for (int step = 1; step < 32; step *= 2) {
                    const int64_t other = __shfl_up_sync(kAllLanes, inclusive, static_cast<unsigned int>(step));
                    inclusive += lane >= step ? other : 0;
                }
                if (before + inclusive - count <= kChunk && before + inclusive > kChunk) {
                    plan.firstBins[image] = static_cast<uint32_t>((warp * kRounds + round) * 32 + lane);
                    plan.firstCounts[image] = static_cast<uint32_t>(before + inclusive - count);
                }
                before += __shfl_sync(kAllLanes, inclusive, 31);
                if (before > kChunk) {
                    break;
                }
            }
        }
        __syncthreads();
    }
}

// The best candidates of images that have more than a chunk has room for.
template <typename T>
__global__ void __launch_bounds__(kTileThreads) gatherKernel(Plan plan, int64_t tiles) {
    for (int64_t work = blockIdx.x; work < plan.shape.batch * tiles; work += gridDim.x) {
        const int64_t image = work / tiles;
        const uint32_t end = plan.firstBins[image];
        if (end < kBins) {
            Key keys[kTileItems];
            keysOfTile<T>(plan, image, work % tiles, keys);
            append(plan, image, keys, end);
        }
    }
}

template <typename T>
cudaError_t prepare(const Plan& plan, cudaStream_t stream) {
    cudaError_t status = cudaSuccess;
    if (plan.cleared > 0) {
        status = cudaMemsetAsync(plan.histogram, 0, plan.cleared, stream);
    }
    const int64_t tiles = tilesOf(plan);
    const unsigned int blocks = gridBlocks(plan.shape.batch * tiles);
    if (status == cudaSuccess && plan.limited && tiles > 0) {
        Plan open = plan;
        open.limited = false;
        open.needsClass = plan.params.classMajor || plan.params.background >= 0;
        const int64_t segments = plan.shape.batch * plan.shape.classes;
        status = launch(classCountKernel<T>, blocks, kTileThreads, 0, stream, open, tiles);
        if (status == cudaSuccess) {
            status = launch(classLimitKernel<T>, gridBlocks(segments), kThreads, 0, stream, open, segments);
        }
    }
    if (status == cudaSuccess && plan.prepared) {
        status = launch(histogramKernel<T>, blocks, kTileThreads, 0, stream, plan, tiles);
        if (status == cudaSuccess) {
            status = launch(firstBinKernel, gridBlocks(plan.shape.batch), kThreads, 0, stream, plan);
        }
        if (status == cudaSuccess) {
            status = launch(gatherKernel<T>, blocks, kTileThreads, 0, stream, plan, tiles);
        }
    }
    return status;
}

}  // namespace detection_selection_detail
}  // namespace trtsmith
