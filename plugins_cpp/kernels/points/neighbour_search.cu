#include "kernels/points/neighbour_search.cuh"

#include <limits>

#include "kernels/dispatch.cuh"
#include "kernels/points/coordinates.cuh"

namespace trtsmith {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr int kTile = 1024;  // points in shared memory

struct Arguments {
    NeighbourSearchShape shape;
    const void* points;
    const void* queries;
    void* distances;  // of the nearest
    int32_t* counts;  // of a ball
    int32_t* indices;
    float minimum;  // squares
    float maximum;
};

__device__ int laneNumber() { return static_cast<int>(threadIdx.x % 32); }

// What a warp has found of one query. `limit`: a point that is not nearer is of no interest; the same for all lanes, as are
// counts.
template <typename T>
struct Ball {
    float limit = -INFINITY;
    int count = 0;
    int first = 0;
    int32_t* places = nullptr;

    static __device__ int64_t passes(const NeighbourSearchShape&) { return 1; }

    __device__ void begin(const Arguments& a, int64_t query, bool exists, int64_t) {
        limit = exists && a.shape.neighbours > 0 ? a.maximum : -INFINITY;
        places = a.indices + query * a.shape.neighbours;
    }

    __device__ void take(const Arguments& a, float square, int index) {
        const bool inside = square < limit && (square >= a.minimum || square == 0.0F);
        const unsigned int found = __ballot_sync(kAllLanes, inside);
        if (found == 0) {
            return;
        }
        const int most = static_cast<int>(a.shape.neighbours);
        const int place = count + __popc(found & ((1U << laneNumber()) - 1));
        if (inside && place < most) {
            places[place] = index;
        }
        if (count == 0) {
            first = __shfl_sync(kAllLanes, index, __ffs(static_cast<int>(found)) - 1);
        }
        count += __popc(found);
        if (count >= most) {
            count = most;
            limit = -INFINITY;
        }
    }

    __device__ void finish(const Arguments& a, int64_t query, int64_t) {
        for (int64_t place = count + laneNumber(); place < a.shape.neighbours; place += 32) {
            places[place] = first;
        }
        if (laneNumber() == 0) {
            a.counts[query] = count;
        }
    }
};

// The nearest 32, in order, one a lane. More neighbours take as many passes, each behind the last one of the pass before.
template <typename T>
struct Nearest {
    float limit = -INFINITY;
    float square = -1.0F;
    int index = 0;
    float behind = -1.0F;
    int behindIndex = -1;
    int last = 0;  // the lane whose point the limit is

    static __device__ int64_t passes(const NeighbourSearchShape& s) { return (s.neighbours + 31) / 32; }

    __device__ void begin(const Arguments& a, int64_t, bool exists, int64_t pass) {
        behind = __shfl_sync(kAllLanes, square, 31);
        behindIndex = __shfl_sync(kAllLanes, index, 31);
        const int64_t left = a.shape.neighbours - 32 * pass;
        last = left < 32 ? static_cast<int>(left) - 1 : 31;
        limit = exists ? INFINITY : -INFINITY;
        square = INFINITY;
        index = 0;
    }

    __device__ void take(const Arguments&, float theirs, int number) {
        unsigned int found = __ballot_sync(kAllLanes, theirs < limit);
        if (found == 0) {
            return;
        }
        if (behind >= 0.0F) {
            found &= __ballot_sync(kAllLanes, theirs > behind || (theirs == behind && number > behindIndex));
        }
        for (; found != 0; found &= found - 1) {
            const int lane = __ffs(static_cast<int>(found)) - 1;
            const float near = __shfl_sync(kAllLanes, theirs, lane);
            const int nearNumber = __shfl_sync(kAllLanes, number, lane);
            const float before = __shfl_up_sync(kAllLanes, square, 1);
            const int beforeIndex = __shfl_up_sync(kAllLanes, index, 1);
            const bool moves = laneNumber() > 0 && before > near;
            if (square > near) {
                square = moves ? before : near;
                index = moves ? beforeIndex : nearNumber;
            }
        }
        limit = __shfl_sync(kAllLanes, square, last);
    }

    __device__ void finish(const Arguments& a, int64_t query, int64_t pass) {
        if (laneNumber() <= last) {
            const int64_t place = query * a.shape.neighbours + 32 * pass + laneNumber();
            a.indices[place] = index;
            static_cast<T*>(a.distances)[place] = fromFloat<T>(sqrtf(square));
        }
    }
};

// The next points of a cloud, up to kTile, in shared memory, and behind them places where nothing is near.
template <typename T>
__device__ void loadTile(float* tile, const T* points, int count) {
    constexpr int kLoads = 6;  // in flight at once
    for (int first = static_cast<int>(threadIdx.x); first < 3 * kTile; first += kLoads * kThreads) {
        float values[kLoads];
#pragma unroll
        for (int i = 0; i < kLoads; ++i) {
            const int at = first + i * kThreads;
            values[i] = at < 3 * count ? loadFloat(points + at) : NAN;
        }
#pragma unroll
        for (int i = 0; i < kLoads; ++i) {
            tile[first + i * kThreads] = values[i];
        }
    }
}

// A warp searches for some queries at once: a lane looks at one point after the other, and compares it with all of them.
// kWidth: 3 coordinates, with the points in shared memory, or any number of them (0).
template <template <typename> class Found, typename T, int kQueries, int kWidth>
__global__ void __launch_bounds__(kThreads, 3) searchKernel(const __grid_constant__ Arguments a) {
    __shared__ float tile[kWidth == 3 ? 3 * kTile : 1];
    const NeighbourSearchShape& s = a.shape;
    const int64_t width = kWidth > 0 ? kWidth : s.width;
    const int64_t groups = (s.queries + kWarps * kQueries - 1) / (kWarps * kQueries);  // of a cloud; a block has one
    for (int64_t group = blockIdx.x; group < s.batch * groups; group += gridDim.x) {
        const int64_t cloud = group / groups;
        const int64_t first = (group % groups * kWarps + threadIdx.x / 32) * kQueries;
        const T* const points = static_cast<const T*>(a.points) + cloud * s.points * width;
        const T* queries[kQueries];  // one that does not exist reads another's place
        Point places[kQueries];
        Found<T> found[kQueries];
#pragma unroll
        for (int q = 0; q < kQueries; ++q) {
            queries[q] = static_cast<const T*>(a.queries) +
                         (cloud * s.queries + (first + q < s.queries ? first + q : 0)) * width;
            if constexpr (kWidth == 3) {
                places[q] = {loadFloat(queries[q]), loadFloat(queries[q] + 1), loadFloat(queries[q] + 2)};
            }
        }
        for (int64_t pass = 0; pass < Found<T>::passes(s); ++pass) {
            bool open = false;  // whether there is a query of interest, for all lanes
#pragma unroll
            for (int q = 0; q < kQueries; ++q) {
                found[q].begin(a, cloud * s.queries + first + q, first + q < s.queries, pass);
                open = open || found[q].limit > -INFINITY;
            }
            for (int64_t from = 0; from < s.points; from += kTile) {
                const int count = static_cast<int>(s.points - from < kTile ? s.points - from : kTile);
                if constexpr (kWidth == 3) {
                    // Also the barrier between a tile's last use and the next tile.
                    if (__syncthreads_or(open ? 1 : 0) == 0) {
                        break;
                    }
                    loadTile(tile, points + 3 * from, count);
                    __syncthreads();
                }
                for (int start = 0; start < count && open; start += 32) {
                    const int point = start + laneNumber();
                    float squares[kQueries];
                    bool any = false;
                    if constexpr (kWidth == 3) {
                        const Point place{tile[3 * point], tile[3 * point + 1], tile[3 * point + 2]};
#pragma unroll
                        for (int q = 0; q < kQueries; ++q) {
                            squares[q] = squaredDistance(places[q], place);
                        }
                    } else {
#pragma unroll
                        for (int q = 0; q < kQueries; ++q) {
                            squares[q] = point < count ? 0.0F : NAN;
                        }
                        for (int64_t axis = 0; axis < width && point < count; ++axis) {
                            const float theirs = loadFloat(points + (from + point) * width + axis);
#pragma unroll
                            for (int q = 0; q < kQueries; ++q) {
                                const float apart = loadFloat(queries[q] + axis) - theirs;
                                squares[q] = fmaf(apart, apart, squares[q]);
                            }
                        }
                    }
#pragma unroll
                    for (int q = 0; q < kQueries; ++q) {
                        any = any || squares[q] < found[q].limit;
                    }
                    if (__any_sync(kAllLanes, any) == 0) {
                        continue;
                    }
                    open = false;
#pragma unroll
                    for (int q = 0; q < kQueries; ++q) {
                        found[q].take(a, squares[q], static_cast<int>(from) + point);
                        open = open || found[q].limit > -INFINITY;
                    }
                }
            }
#pragma unroll
            for (int q = 0; q < kQueries; ++q) {
                if (first + q < s.queries) {
                    found[q].finish(a, cloud * s.queries + first + q, pass);
                }
            }
        }
    }
}

// Several queries a warp read a point once, but leave multiprocessors idle where there are few queries.
constexpr int kQueriesAtOnce = 4;
constexpr int64_t kManyQueries = 8192;

template <template <typename> class Found, int kWidth>
cudaError_t launchSearch(DType type, const Arguments& a, cudaStream_t stream) {
    const bool many = a.shape.batch * a.shape.queries >= kManyQueries;
    const int64_t groups = a.shape.batch * ceilDivide(a.shape.queries, int64_t{kWarps} * (many ? kQueriesAtOnce : 1));
    return withFloatType(type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto kernel = many ? searchKernel<Found, T, kQueriesAtOnce, kWidth> : searchKernel<Found, T, 1, kWidth>;
        return launch(kernel, gridBlocks(groups), kThreads, 0, stream, a);
    });
}

// The elements of points, queries and neighbours; false for sizes that the kernel's indices do not hold.
bool countElements(const NeighbourSearchShape& s, int64_t& points, int64_t& queries, int64_t& neighbours) {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max() / 2;
    return elementCount({s.batch, s.points, s.width}, points) && elementCount({s.batch, s.queries, s.width}, queries) &&
           elementCount({s.batch, s.queries, s.neighbours}, neighbours) && s.points <= kMost && s.width <= kMost &&
           s.neighbours <= kMost;
}

}  // namespace

cudaError_t ballNeighbours(const BallNeighboursParams& params, const NeighbourSearchShape& shape, cudaStream_t stream) {
    int64_t points = 0;
    int64_t queries = 0;
    int64_t neighbours = 0;
    if (shape.width != 3 || !countElements(shape, points, queries, neighbours)) {
        return cudaErrorInvalidValue;
    }
    if (queries == 0) {
        return cudaSuccess;
    }
    if (params.queries == nullptr || params.counts == nullptr || (points > 0 && params.points == nullptr) ||
        (neighbours > 0 && params.indices == nullptr)) {
        return cudaErrorInvalidValue;
    }
    const Arguments a{shape,
                      params.points,
                      params.queries,
                      nullptr,
                      params.counts,
                      params.indices,
                      params.minimum * params.minimum,
                      params.radius * params.radius};
    return launchSearch<Ball, 3>(params.type, a, stream);
}

cudaError_t nearestNeighbours(const NearestNeighboursParams& params, const NeighbourSearchShape& shape,
                              cudaStream_t stream) {
    int64_t points = 0;
    int64_t queries = 0;
    int64_t neighbours = 0;
    if (!countElements(shape, points, queries, neighbours)) {
        return cudaErrorInvalidValue;
    }
    if (neighbours == 0) {
        return cudaSuccess;
    }
    if (params.distances == nullptr || params.indices == nullptr || (points > 0 && params.points == nullptr) ||
        (queries > 0 && params.queries == nullptr)) {
        return cudaErrorInvalidValue;
    }
    const Arguments a{shape, params.points, params.queries, params.distances, nullptr, params.indices, 0.0F, 0.0F};
    return shape.width == 3 ? launchSearch<Nearest, 3>(params.type, a, stream)
                            : launchSearch<Nearest, 0>(params.type, a, stream);
}

}  // namespace trtsmith
