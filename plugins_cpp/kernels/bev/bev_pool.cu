#include "kernels/bev/bev_pool.cuh"

#include "kernels/convert.cuh"
#include "kernels/dispatch.cuh"

namespace trtsmith {
namespace {

constexpr int32_t kThreads = 256;
constexpr int32_t kBlocks = 3;  // of a multiprocessor
constexpr int32_t kWarp = 32;
constexpr int32_t kLeastLanes = 8;
// Cells of a block. They are far apart in the grid, one of each sixteenth and each at another place of it: near the cameras
// all cells have hundreds of points, and side by side, or one above the other, they would be one block's. Of a rig like that
// of nuScenes and 128 x 128 cells, one block in a hundred has more than 750 points, where the mean is 263; with cells at the
// same place of every sixteenth it is 1,135.
constexpr int32_t kCells = 16;
// Points that a team takes at least: fewer are not worth being added up across teams.
constexpr int64_t kLeastShare = 8;

// A team of 8, 16 or 32 lanes of a warp holds a slice of the channels, kVector a lane, and reads one point after the
// other. The points of all cells of a block are one list, of which every team takes an equal share, so that a long
// interval is summed by several teams: each leaves its sum of the interval that it did not begin in shared memory, and
// the team that began it adds them up, in order.
struct Arguments {
    BevPoolParams params;
    BevPoolShape shape;
    int32_t* owners;  // [cells], the last interval of each cell, or -1
    int32_t lanes;
    int64_t groups;  // of cells, as many as there are blocks for a slice
    int64_t pieces;  // groups * slices
};

// What the threads of a block share.
struct Shared {
    int64_t ends[kCells + 1];  // ends[k]: points of the cells before k
    int64_t starts[kCells];    // first point of each cell's interval
    int64_t cells[kCells];     // -1: none
};

template <typename T, int kVector>
struct Lane {
    uint32_t mask;  // of the team, in its warp
    int32_t index;  // in the team
    int64_t channel;
    bool active;  // whether the channel exists
};

__global__ void __launch_bounds__(kThreads) ownersKernel(const __grid_constant__ Arguments a) {
    const BevPoolShape& s = a.shape;
    const int64_t step = int64_t{gridDim.x} * blockDim.x;
    for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < s.intervals; i += step) {
        const int64_t start = a.params.intervalStarts[i];
        if (start < 0 || start >= s.points || a.params.intervalLengths[i] <= 0) {
            continue;
        }
        const int64_t cell = a.params.cellRanks[start];
        if (cell >= 0 && cell < s.cells) {
            atomicMax(a.owners + cell, static_cast<int32_t>(i));
        }
    }
}

// The first warp finds the block's cells, reads their intervals, and sums the lengths up.
__device__ inline void readIntervals(const Arguments& a, int64_t group, Shared& shared) {
    if (threadIdx.x >= kWarp) {
        return;
    }
    const int32_t lane = static_cast<int32_t>(threadIdx.x);
    const int64_t cell = lane * a.groups + (group + lane * (a.groups * 5 / 13)) % a.groups;
    const bool exists = lane < kCells && cell < a.shape.cells;
    int64_t start = 0;
    int64_t count = 0;
    const int32_t owner = exists ? a.owners[cell] : -1;
    if (owner >= 0) {
        start = a.params.intervalStarts[owner];
        const int64_t left = a.shape.points - start;
        const int64_t length = a.params.intervalLengths[owner];
        count = length < left ? length : left;
    }
    for (int32_t distance = 1; distance < kCells; distance *= 2) {
        const long long before = __shfl_up_sync(0xffffffffU, static_cast<long long>(count), distance);
        count += lane >= distance ? before : 0;
    }
    if (lane < kCells) {
        shared.starts[lane] = start;
        shared.cells[lane] = exists ? cell : -1;
        shared.ends[lane + 1] = count;
    }
    if (lane == 0) {
        shared.ends[0] = 0;
    }
}

// Adds `count` points, from `first` on. Each lane reads the ranks and the depth of one point for all lanes of its team.
template <typename T, int kVector>
__device__ inline void addPoints(const Arguments& a, const Lane<T, kVector>& lane, int64_t first, int64_t count,
                                 float (&sums)[kVector]) {
    constexpr int kAtOnce = 4;  // points whose features are on their way
    static_assert(kLeastLanes % kAtOnce == 0);
    const T* const depth = static_cast<const T*>(a.params.depth);
    const T* const features = static_cast<const T*>(a.params.features) + lane.channel;
    for (int64_t done = 0; done < count; done += a.lanes) {
        float weight = 0.0F;
        int32_t row = -1;
        if (done + lane.index < count) {
            const int64_t point = first + done + lane.index;
            const int32_t depthRank = __ldg(a.params.depthRanks + point);
            const int32_t featureRank = __ldg(a.params.featureRanks + point);
            if (depthRank >= 0 && depthRank < a.shape.depths && featureRank >= 0 && featureRank < a.shape.rows) {
                weight = loadFloat(depth + depthRank);
                row = featureRank;
            }
        }
        const int32_t points = static_cast<int32_t>(count - done < a.lanes ? count - done : a.lanes);
        for (int32_t j = 0; j < points; j += kAtOnce) {
            float weights[kAtOnce];
            float values[kAtOnce][kVector];
#pragma unroll
            for (int u = 0; u < kAtOnce; ++u) {
                weights[u] = __shfl_sync(lane.mask, weight, j + u, a.lanes);
                const int32_t rowOf = __shfl_sync(lane.mask, row, j + u, a.lanes);
                const bool valid = rowOf >= 0 && lane.active;
                loadFloats(features + (valid ? rowOf * a.shape.channels : 0), valid, values[u]);
            }
#pragma unroll
            for (int u = 0; u < kAtOnce; ++u) {
#pragma unroll
                for (int v = 0; v < kVector; ++v) {
                    sums[v] = fmaf(weights[u], values[u][v], sums[v]);
                }
            }
        }
    }
}

template <typename T, int kVector>
__device__ inline void storeCell(const Arguments& a, const Lane<T, kVector>& lane, int64_t cell,
                                 const float (&sums)[kVector]) {
    if (lane.active) {
        storeFloats(static_cast<T*>(a.params.output) + cell * a.shape.channels + lane.channel, sums);
    }
}

// The team's share of the block's points. Threads of a block must call it together. heads: [kVector, kThreads], the sums
// of intervals that an earlier team began.
template <typename T, int kVector>
__device__ inline void poolCells(const Arguments& a, const Lane<T, kVector>& lane, const Shared& shared, float* heads) {
    const int32_t teams = kThreads / a.lanes;
    const int32_t team = static_cast<int32_t>(threadIdx.x) / a.lanes;
    const int64_t total = shared.ends[kCells];
    const int64_t even = (total + teams - 1) / teams;
    const int64_t share = even > kLeastShare ? even : kLeastShare;
    const int64_t from = team * share;
    const int64_t to = from + share < total ? from + share : total;
    float sums[kVector] = {};
    int32_t cell = 0;
    bool unfinished = false;  // whether `sums` are the beginning of an interval that another team ends
    for (int64_t at = from; at < to;) {
        while (shared.ends[cell + 1] <= at) {
            ++cell;
        }
        const int64_t begin = shared.ends[cell];
        const int64_t end = shared.ends[cell + 1];
        const int64_t stop = end < to ? end : to;
#pragma unroll
        for (int v = 0; v < kVector; ++v) {
            sums[v] = 0.0F;
        }
        addPoints(a, lane, shared.starts[cell] + (at - begin), stop - at, sums);
        if (at > begin) {
#pragma unroll
            for (int v = 0; v < kVector; ++v) {
                heads[v * kThreads + static_cast<int32_t>(threadIdx.x)] = sums[v];
            }
        } else if (stop == end) {
            storeCell(a, lane, shared.cells[cell], sums);
        } else {
            unfinished = true;
        }
        at = stop;
    }
    __syncthreads();
    if (unfinished) {
        int32_t head = static_cast<int32_t>(threadIdx.x) + a.lanes;
        for (int64_t next = to; next < shared.ends[cell + 1]; next += share, head += a.lanes) {
#pragma unroll
            for (int v = 0; v < kVector; ++v) {
                sums[v] += heads[v * kThreads + head];
            }
        }
        storeCell(a, lane, shared.cells[cell], sums);
    }
    const float zeros[kVector] = {};
    for (int32_t k = team; k < kCells; k += teams) {
        if (shared.ends[k] == shared.ends[k + 1] && shared.cells[k] >= 0) {
            storeCell(a, lane, shared.cells[k], zeros);
        }
    }
}

template <typename T, int kVector>
__global__ void __launch_bounds__(kThreads, kBlocks) poolKernel(const __grid_constant__ Arguments a) {
    __shared__ Shared shared;
    __shared__ float heads[kVector * kThreads];
    const int32_t inWarp = static_cast<int32_t>(threadIdx.x) % kWarp;
    Lane<T, kVector> lane{};
    lane.index = inWarp % a.lanes;
    lane.mask = (0xffffffffU >> (kWarp - a.lanes)) << (inWarp - lane.index);
    for (int64_t piece = blockIdx.x; piece < a.pieces; piece += gridDim.x) {
        const int64_t slice = piece / a.groups;
        const int64_t group = piece - slice * a.groups;
        lane.channel = (slice * a.lanes + lane.index) * kVector;
        lane.active = lane.channel < a.shape.channels;
        __syncthreads();
        readIntervals(a, group, shared);
        __syncthreads();
        poolCells(a, lane, shared, heads);
    }
}

template <typename T, int kVector>
cudaError_t pool(Arguments& a, cudaStream_t stream) {
    const int64_t needed = ceilDivide(a.shape.channels, kVector);
    a.lanes = kLeastLanes;
    while (a.lanes < kWarp && a.lanes < needed) {
        a.lanes *= 2;
    }
    a.groups = ceilDivide(a.shape.cells, kCells);
    a.pieces = a.groups * ceilDivide(needed, a.lanes);
    return launch(poolKernel<T, kVector>, gridBlocks(a.pieces), kThreads, 0, stream, a);
}

// Sizes that do not overflow, and no null pointer to a tensor that has elements.
bool isValid(const BevPoolParams& p, const BevPoolShape& s, int64_t& outputs) {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    int64_t depths = 0;
    int64_t points = 0;
    int64_t features = 0;
    if (s.intervals > kMost || s.cells > kMost || s.intervals < 0 || !elementCount({s.depths}, depths) ||
        !elementCount({s.points}, points) || !elementCount({s.rows, s.channels}, features) ||
        !elementCount({s.cells, s.channels}, outputs)) {
        return false;
    }
    const bool hasDepths = depths == 0 || p.depth != nullptr;
    const bool hasFeatures = features == 0 || p.features != nullptr;
    const bool hasRanks =
        points == 0 || (p.depthRanks != nullptr && p.featureRanks != nullptr && p.cellRanks != nullptr);
    const bool hasIntervals = s.intervals == 0 || (p.intervalStarts != nullptr && p.intervalLengths != nullptr);
    return outputs == 0 || (hasDepths && hasFeatures && hasRanks && hasIntervals && p.output != nullptr);
}

}  // namespace

size_t bevPoolWorkspace(const BevPoolShape& shape) {
    const bool fits = shape.cells > 0 && shape.cells <= std::numeric_limits<int32_t>::max();
    return fits ? static_cast<size_t>(shape.cells) * sizeof(int32_t) : 0;
}

cudaError_t bevPool(const BevPoolParams& params, const BevPoolShape& shape, void* workspace, cudaStream_t stream) {
    int64_t outputs = 0;
    if (!isValid(params, shape, outputs) || (outputs > 0 && workspace == nullptr)) {
        return cudaErrorInvalidValue;
    }
    Arguments a{params, shape, static_cast<int32_t*>(workspace), 0, 0, 0};
    return withFloatType(params.type, [&](auto tag) -> cudaError_t {
        using T = typename decltype(tag)::type;
        if (outputs == 0) {
            return cudaSuccess;
        }
        cudaError_t status = cudaMemsetAsync(workspace, 0xff, bevPoolWorkspace(shape), stream);
        if (status == cudaSuccess && shape.intervals > 0) {
            const unsigned int blocks = gridBlocks(ceilDivide(shape.intervals, kThreads));
            status = launch(ownersKernel, blocks, kThreads, 0, stream, a);
        }
        if (status != cudaSuccess) {
            return status;
        }
        constexpr int kVector = 16 / static_cast<int>(sizeof(T));
        const bool wide =
            shape.channels % kVector == 0 && isAligned(params.features, 16) && isAligned(params.output, 16);
        return wide ? pool<T, kVector>(a, stream) : pool<T, 1>(a, stream);
    });
}

}  // namespace trtsmith
