#include "kernels/points/farthest_point_sampling.cuh"

#include <array>
#include <limits>
#include <utility>

#include "kernels/dispatch.cuh"
#include "kernels/points/coordinates.cuh"

namespace trtsmith {
namespace {

constexpr int kMostBlocks = 8;  // of a cluster, on every GPU that has them
constexpr float kFarAway = 1e10F;
constexpr float kOrigin = 1e-3F;
constexpr int kLeast = std::numeric_limits<int>::min();
constexpr int kMost = std::numeric_limits<int>::max();

struct Arguments {
    FarthestPointSamplingParams params;
    FarthestPointSamplingShape shape;
    float4* kept;  // points and squared distances, where registers do not hold them
    int blocks;    // of a cloud: a power of two
};

// The best point of each warp of a cloud's blocks, for two steps: a warp that is ahead writes the next while others read.
template <int kSlots>
struct Candidates {
    float4 places[2][kSlots];  // coordinates, and the index's bits
    int squares[2][kSlots];    // bits, which compare as the numbers do where -1 is the only one below zero
    uint64_t barriers[2];
};

__device__ uint32_t sharedAddress(const void* pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// What only clusters have. A store to another block's shared memory counts at that block's barrier when it has come, so that
// a step waits once, for the candidates themselves.
#if __CUDA_ARCH__ >= 900
__device__ void initBarrier(uint32_t barrier) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ uint32_t inBlock(uint32_t address, int block) {
    uint32_t there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(block));
    return there;
}

__device__ void send(uint32_t square, uint32_t place, uint32_t barrier, int bits, const Point& point, int index) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(square), "r"(bits),
                 "r"(barrier)
                 : "memory");
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(place),
        "r"(__float_as_int(point.x)), "r"(__float_as_int(point.y)), "r"(__float_as_int(point.z)), "r"(index),
        "r"(barrier)
        : "memory");
}

__device__ void expect(uint32_t barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ void await(uint32_t barrier, uint32_t parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}\n" ::"r"(barrier),
        "r"(parity)
        : "memory");
}

__device__ void endBarrier(uint32_t barrier) {
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

__device__ void syncCluster() {
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}
#else
__device__ void initBarrier(uint32_t) {}
__device__ uint32_t inBlock(uint32_t address, int) { return address; }
__device__ void send(uint32_t, uint32_t, uint32_t, int, const Point&, int) {}
__device__ void expect(uint32_t, uint32_t) {}
__device__ void await(uint32_t, uint32_t) {}
__device__ void endBarrier(uint32_t) {}
__device__ void syncCluster() {}
#endif

__device__ Point pointAt(const Arguments& a, int64_t cloud, int64_t i) {
    const int64_t first = 3 * (cloud * a.shape.points + i);
    return {elementOf(a.params.type, a.params.points, first), elementOf(a.params.type, a.params.points, first + 1),
            elementOf(a.params.type, a.params.points, first + 2)};
}

// Before the first point is taken.
__device__ float distanceOf(const Arguments& a, const Point& p) {
    const bool finite = fabsf(p.x) < INFINITY && fabsf(p.y) < INFINITY && fabsf(p.z) < INFINITY;
    const bool skipped = a.params.skipOrigin && squaredDistance(p, {0.0F, 0.0F, 0.0F}) < kOrigin;
    return finite && !skipped ? kFarAway : -1.0F;
}

// Threads have runs of points, so that of equally far ones the lowest thread has the lowest index. With kPoints, a thread has
// that many in registers, and in shared memory again, to look one up by number. Without, warps have runs, in the workspace.
template <int kThreads, int kPoints, bool kCluster>
__global__ void __launch_bounds__(kThreads) sampleKernel(const __grid_constant__ Arguments a) {
    constexpr int kWarps = kThreads / 32;
    constexpr int kSlots = kCluster ? kWarps * kMostBlocks : kWarps;
    constexpr int kSlotsOfLane = (kSlots + 31) / 32;
    constexpr int kHeld = kPoints > 0 ? kPoints : 1;
    extern __shared__ float coordinates[];  // [3][kPoints][kThreads]
    __shared__ Candidates<kSlots> candidates;
    // Or the address, which depends on the block's place in its cluster, is worked out several times a step.
    size_t address = __cvta_generic_to_shared(&candidates);
    asm volatile("" : "+l"(address));
    Candidates<kSlots>& shared = *static_cast<Candidates<kSlots>*>(__cvta_shared_to_generic(address));
    const int blocks = kCluster ? a.blocks : 1;
    const int block = kCluster ? static_cast<int>(blockIdx.x) % blocks : 0;
    const int64_t cloud = blockIdx.x / blocks;
    const int slots = blocks * kWarps;
    const int thread = static_cast<int>(threadIdx.x);
    const int lane = thread % 32;
    const int slot = block * kWarps + thread / 32;
    const int count = static_cast<int>(a.shape.points);
    const int samples = static_cast<int>(a.shape.samples);
    const bool first = block == 0 && thread == 0;
    int32_t* const indices = a.params.indices + cloud * a.shape.samples;

    // Registers, or a run of the warp in the workspace.
    Point held[kHeld];
    float least[kHeld];
    const int begin = (block * kThreads + thread) * kPoints;
    const int run = (count + slots - 1) / slots;
    const int from = slot * run + lane;
    const int to = min(count, (slot + 1) * run);
    float4* const kept = kPoints > 0 ? nullptr : a.kept + cloud * count;
    if constexpr (kPoints > 0) {
#pragma unroll
        for (int p = 0; p < kPoints; ++p) {
            held[p] = begin + p < count ? pointAt(a, cloud, begin + p) : Point{0.0F, 0.0F, 0.0F};
            least[p] = begin + p < count ? distanceOf(a, held[p]) : -1.0F;
            coordinates[p * kThreads + thread] = held[p].x;
            coordinates[(kPoints + p) * kThreads + thread] = held[p].y;
            coordinates[(2 * kPoints + p) * kThreads + thread] = held[p].z;
        }
    } else {
        for (int i = from; i < to; i += 32) {
            const Point point = pointAt(a, cloud, i);
            kept[i] = {point.x, point.y, point.z, distanceOf(a, point)};
        }
    }
    if constexpr (kCluster) {
        if (thread < 2) {
            initBarrier(sharedAddress(&shared.barriers[thread]));
        }
        syncCluster();
    }
    if (first) {
        indices[0] = 0;
    }
    Point last = pointAt(a, cloud, 0);
    for (int taken = 1; taken < samples; ++taken) {
        float best = -1.0F;  // that of a thread without a point, too
        int index = 0;
        Point point;
        if constexpr (kPoints > 0) {
#pragma unroll
            for (int p = 0; p < kPoints; ++p) {
                least[p] = fminf(least[p], squaredDistance(held[p], last));
                index = least[p] > best ? p : index;
                best = fmaxf(best, least[p]);
            }
            const float* const own = coordinates + index * kThreads + thread;
            point = {own[0], own[kPoints * kThreads], own[2 * kPoints * kThreads]};
            // Every lane reads its own before the warp's best is known, which takes as long.
            asm volatile("" : "+f"(point.x), "+f"(point.y), "+f"(point.z));
            index += begin;
        } else {
            constexpr int kLoads = 4;  // in flight at once
            point = {0.0F, 0.0F, 0.0F};
            index = from;
            for (int i = from; i < to; i += 32 * kLoads) {
                float4 places[kLoads];
#pragma unroll
                for (int j = 0; j < kLoads; ++j) {
                    places[j] = kept[i + 32 * j < to ? i + 32 * j : i];
                }
#pragma unroll
                for (int j = 0; j < kLoads; ++j) {
                    const Point candidate{places[j].x, places[j].y, places[j].z};
                    const int number = i + 32 * j < to ? i + 32 * j : i;  // a point may come several times
                    const float square = squaredDistance(candidate, last);
                    if (square < places[j].w) {
                        kept[number].w = square;
                    }
                    const float now = fminf(places[j].w, square);
                    if (now > best || (i == from && j == 0)) {
                        best = now;
                        index = number;
                        point = candidate;
                    }
                }
            }
        }
        const int bits = __float_as_int(best);
        const int largest = warpMax(bits);
        bool isLargest = bits == largest;
        if constexpr (kPoints == 0) {
            const int lowest = warpMin(isLargest ? index : kMost);
            isLargest = isLargest && index == lowest;
        }
        const int winner = __ffs(static_cast<int>(__ballot_sync(kAllLanes, isLargest))) - 1;
        const int turn = taken & 1;
        if constexpr (kCluster) {
            point = {__shfl_sync(kAllLanes, point.x, winner), __shfl_sync(kAllLanes, point.y, winner),
                     __shfl_sync(kAllLanes, point.z, winner)};
            index = __shfl_sync(kAllLanes, index, winner);
            const uint32_t barrier = sharedAddress(&shared.barriers[turn]);
            if (thread == 0) {
                expect(barrier, static_cast<uint32_t>(slots) * (sizeof(int) + sizeof(float4)));
            }
            if (lane < blocks) {
                send(inBlock(sharedAddress(&shared.squares[turn][slot]), lane),
                     inBlock(sharedAddress(&shared.places[turn][slot]), lane), inBlock(barrier, lane), largest, point,
                     index);
            }
            await(barrier, static_cast<uint32_t>((taken - 1) >> 1 & 1));
        } else {
            if (lane == winner) {
                shared.squares[turn][slot] = largest;
                shared.places[turn][slot] = {point.x, point.y, point.z, __int_as_float(index)};
            }
            __syncthreads();
        }
        int squares[kSlotsOfLane];
        int farthest = kLeast;
#pragma unroll
        for (int i = 0; i < kSlotsOfLane; ++i) {
            const int other = lane * kSlotsOfLane + i;
            squares[i] = other < slots ? shared.squares[turn][other] : kLeast;
            farthest = max(farthest, squares[i]);
        }
        farthest = warpMax(farthest);
        int next = kMost;
#pragma unroll
        for (int i = 0; i < kSlotsOfLane; ++i) {
            const int found = __ffs(static_cast<int>(__ballot_sync(kAllLanes, squares[i] == farthest))) - 1;
            next = found >= 0 ? min(next, found * kSlotsOfLane + i) : next;
        }
        const float4 place = shared.places[turn][next];
        last = {place.x, place.y, place.z};
        if (first) {
            indices[taken] = __float_as_int(place.w);
        }
    }
    if constexpr (kCluster) {
        syncCluster();
        if (thread < 2) {
            endBarrier(sharedAddress(&shared.barriers[thread]));
        }
    }
}

struct Plan {
    int blocks = 1;   // of a cloud
    int threads = 0;  // of a block
    int points = 0;   // of a thread; 0: they are not kept
};

// Threads and their points, in the order of what a block holds.
constexpr std::array<std::array<int, 2>, 6> kSizes{{{128, 4}, {128, 8}, {128, 16}, {128, 32}, {256, 32}, {256, 50}}};
constexpr int64_t kMostHeld = 256 * 50;
// Of a cloud that several blocks share, and of one of these blocks, above which twice as many are faster: on an H200 4,096
// points take 0.40 us a step with 1 block and with 2, 0.34 with 4 and 0.36 with 8; 1,024 points 0.25, 0.35, 0.36 and 0.42.
constexpr int64_t kSharedFrom = 2048;
constexpr int64_t kBlockFrom = 1024;
constexpr int kStreamThreads = 512;

constexpr int sharedBytes(int threads, int points) { return threads * points * static_cast<int>(3 * sizeof(float)); }

Plan makePlan(const FarthestPointSamplingShape& s) {
    int device = 0;
    int multiprocessors = 1;
    int mostShared = 48 << 10;
    cudaFuncAttributes attributes{};
    const auto kernel = sampleKernel<kStreamThreads, 0, true>;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device) != cudaSuccess ||
        cudaDeviceGetAttribute(&mostShared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) != cudaSuccess ||
        cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel)) != cudaSuccess) {
        static_cast<void>(cudaGetLastError());
    }
    Plan plan;
    // Machine code of before sm_90 has no clusters, on whatever GPU it runs.
    while (attributes.ptxVersion >= 90 && plan.blocks < kMostBlocks &&
           (s.points > plan.blocks * kMostHeld || (s.points > kSharedFrom && s.points > plan.blocks * kBlockFrom &&
                                                   2 * plan.blocks * s.batch <= multiprocessors))) {
        plan.blocks *= 2;
    }
    for (const auto& [threads, points] : kSizes) {
        constexpr int kStatic = 4096;  // at most
        if (plan.points == 0 && s.points <= int64_t{plan.blocks} * threads * points &&
            sharedBytes(threads, points) + kStatic <= mostShared) {
            plan.threads = threads;
            plan.points = points;
        }
    }
    return plan;
}

template <int kThreads, int kPoints, bool kCluster>
cudaError_t launchSampling(const Arguments& a, cudaStream_t stream) {
    const auto kernel = sampleKernel<kThreads, kPoints, kCluster>;
    if (const cudaError_t error = allowSharedBytes(kernel, sharedBytes(kThreads, kPoints)); error != cudaSuccess) {
        return error;
    }
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {static_cast<unsigned int>(a.blocks), 1, 1};
    cudaLaunchConfig_t configuration{};
    configuration.gridDim = dim3(static_cast<unsigned int>(a.shape.batch * a.blocks));
    configuration.blockDim = dim3(kThreads);
    configuration.dynamicSmemBytes = sharedBytes(kThreads, kPoints);
    configuration.stream = stream;
    configuration.attrs = &attribute;
    configuration.numAttrs = kCluster ? 1 : 0;
    Arguments argument = a;
    void* pointers[] = {&argument};
    const cudaError_t error = cudaLaunchKernelExC(&configuration, reinterpret_cast<const void*>(kernel), pointers);
    if (error != cudaSuccess) {
        static_cast<void>(cudaGetLastError());
    }
    return error;
}

template <int kThreads, int kPoints>
cudaError_t launchWith(const Arguments& a, cudaStream_t stream) {
    return a.blocks > 1 ? launchSampling<kThreads, kPoints, true>(a, stream)
                        : launchSampling<kThreads, kPoints, false>(a, stream);
}

template <size_t... kSize>
cudaError_t launchPlan(const Plan& plan, const Arguments& a, cudaStream_t stream, std::index_sequence<kSize...>) {
    cudaError_t error = cudaSuccess;
    const bool held = ((plan.threads == kSizes[kSize][0] && plan.points == kSizes[kSize][1] &&
                        (error = launchWith<kSizes[kSize][0], kSizes[kSize][1]>(a, stream), true)) ||
                       ...);
    return held ? error : launchWith<kStreamThreads, 0>(a, stream);
}

// Whether all counts are within what the kernel's indices hold; the elements of the points and of the samples.
bool countElements(const FarthestPointSamplingShape& s, int64_t& points, int64_t& samples) {
    return elementCount({s.batch, s.points, 3}, points) && elementCount({s.batch, s.samples}, samples) &&
           s.points <= kMost / 2 && s.samples <= kMost && s.batch <= kMost / kMostBlocks;
}

}  // namespace

size_t farthestPointSamplingWorkspace(const FarthestPointSamplingShape& shape) {
    int64_t points = 0;
    int64_t samples = 0;
    if (!countElements(shape, points, samples) || makePlan(shape).points > 0) {
        return 0;
    }
    return static_cast<size_t>(points / 3) * sizeof(float4);
}

cudaError_t farthestPointSampling(const FarthestPointSamplingParams& params, const FarthestPointSamplingShape& shape,
                                  void* workspace, cudaStream_t stream) {
    int64_t points = 0;
    int64_t samples = 0;
    if (!countElements(shape, points, samples)) {
        return cudaErrorInvalidValue;
    }
    if (samples == 0) {
        return cudaSuccess;
    }
    const Plan plan = makePlan(shape);
    if (points == 0 || params.points == nullptr || params.indices == nullptr ||
        (plan.points == 0 && workspace == nullptr)) {
        return cudaErrorInvalidValue;
    }
    return launchPlan(plan, {params, shape, static_cast<float4*>(workspace), plan.blocks}, stream,
                      std::make_index_sequence<kSizes.size()>{});
}

}  // namespace trtsmith
