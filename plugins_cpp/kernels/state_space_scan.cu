#include "kernels/state_space_scan.cuh"

#include "kernels/dispatch.cuh"
#include "kernels/state_space_scan_chunks.cuh"
#include "kernels/state_space_scan_tokens.cuh"

// Of many channels: a lane runs through the tokens of a channel, one after the other: kLanes lanes share the columns of its state, kColumns
// each, in registers. A block has channels of one group, so that all its lanes read the same maps b and c:
// kTile tokens of them at a time are widened into shared memory, while the next are on their way. Step sizes of a tile are
// computed by the lanes of a warp in turn, and so are the sums over kLanes. The limit is the unit of exponentials, one for
// each token, channel and column: what else is done for these fits beside it.
namespace trtsmith {
namespace {

constexpr int kWarp = 32;
constexpr int kThreads = 128;
constexpr int kTile = 32;
constexpr int kVector = 8;  // elements of a load at most
constexpr int64_t kMostStates = 1024;
constexpr int64_t kMostTokens = int64_t{1} << 30;
constexpr int64_t kManySeries = 4608;
constexpr int64_t kManyTokens = 128;

struct Arguments {
    StateSpaceScanParams params;
    StateSpaceScanShape shape;
    int64_t blocks;
    int64_t blocksOfGroup;
};

// Four tokens of a row of a tile in shared memory. Four words more a row: lanes of neighbouring rows meet no bank twice.
constexpr int kPitch = kTile + 4;

__device__ float4& quad(float* tile, int row, int at) { return reinterpret_cast<float4*>(tile + row * kPitch)[at]; }

template <int kLanes, int kColumns>
struct Layout {
    static constexpr int kStates = kLanes * kColumns;         // columns of a turn
    static constexpr int kRows = kThreads / kLanes;           // channels of a block
    static constexpr int kWarpRows = kWarp / kLanes;          // of a warp
    static constexpr int kShare = kWarpRows * kTile / kWarp;  // tokens of a tile whose step size a lane computes
    static constexpr int kOwn = kShare < kVector ? kShare : kVector;
    static constexpr int kPasses = kShare / kOwn;
    static constexpr int kMaps = 2 * kStates * kTile;  // numbers of b and c
    static constexpr int kMapsFloats = 2 * kStates * kPitch;
    static constexpr int kMapsShare = (kMaps + kThreads - 1) / kThreads;
    static constexpr int kMapsOwn = kMapsShare < kVector ? kMapsShare : kVector;
    static constexpr int kMapsPasses = kMapsShare / kMapsOwn;
    static constexpr int kFloats = 2 * kMapsFloats + (2 + kLanes) * kRows * kPitch;
};

template <typename T, bool kWide, int kLanes, int kColumns>
__global__ void __launch_bounds__(kThreads, 4) scanKernel(const __grid_constant__ Arguments a) {
    using L = Layout<kLanes, kColumns>;
    constexpr int kOwn = L::kOwn;
    constexpr int kPasses = L::kPasses;
    constexpr int kMapsOwn = L::kMapsOwn;
    constexpr int kMapsPasses = L::kMapsPasses;
    extern __shared__ __align__(16) float shared[];
    float* const maps = shared;                                // [2][2 * kStates, kTile], one for the turn to come
    float* const steps = maps + 2 * L::kMapsFloats;            // [kRows, kTile]
    float* const drives = steps + L::kRows * kPitch;           // [kRows, kTile]: step size times u
    float* const parts = drives + L::kRows * kPitch;           // [kRows * kLanes, kTile]: y of a lane's columns
    float* const states = parts + L::kRows * kLanes * kPitch;  // [kRows, pitch]

    const StateSpaceScanParams& p = a.params;
    const int thread = static_cast<int>(threadIdx.x);
    const int lane = thread % kWarp;
    const int warpRow = thread / kWarp * L::kWarpRows;
    const int row = thread / kLanes;
    const int part = lane % kLanes;
    const int ownRow = warpRow + lane / (kTile / kOwn);  // the first of those whose step sizes it computes
    const int ownToken = lane % (kTile / kOwn) * kOwn;
    const int count = static_cast<int>(a.shape.states);
    const int length = static_cast<int>(a.shape.length);
    const int turns = count > 0 ? (count - 1) / L::kStates + 1 : 1;
    const int pitch = turns * L::kStates | 1;
    const int tiles = length > 0 ? (length - 1) / kTile + 1 : 1;

    for (int64_t block = blockIdx.x; block < a.blocks; block += gridDim.x) {
        const int64_t group = block / a.blocksOfGroup;
        const int64_t each = a.shape.channels / a.shape.groups;
        const int64_t inGroup = block % a.blocksOfGroup * L::kRows;
        const int rows = static_cast<int>(each - inGroup < L::kRows ? each - inGroup : L::kRows);
        const int64_t channel = group % a.shape.groups * each + inGroup;  // the block's first
        const int64_t series = group / a.shape.groups * a.shape.channels + channel;
        const T* const fromB = static_cast<const T*>(p.b) + group * count * length;
        const T* const fromC = static_cast<const T*>(p.c) + group * count * length;

        T nextMaps[kMapsPasses][kMapsOwn];
        const auto loadMaps = [&](int tile, int turn) {
#pragma unroll
            for (int i = 0; i < kMapsPasses; ++i) {
                const int at = (i * kThreads + thread) * kMapsOwn;
                const int column = turn * L::kStates + at / kTile % L::kStates;
                const T* const from = at / kTile < L::kStates ? fromB : fromC;
                loadTokens<kWide>(from + static_cast<int64_t>(column) * length, tile * kTile + at % kTile,
                                  column < count && at < L::kMaps ? length : 0, nextMaps[i]);
            }
        };
        const auto storeMaps = [&](float* to) {
#pragma unroll
            for (int i = 0; i < kMapsPasses; ++i) {
                const int at = (i * kThreads + thread) * kMapsOwn;
#pragma unroll
                for (int j = 0; j < kMapsOwn && at < L::kMaps; ++j) {
                    to[at / kTile * kPitch + at % kTile + j] = toFloat(nextMaps[i][j]);
                }
            }
        };
        const auto loadOwn = [&](const void* from, int tile, T(&values)[kPasses][kOwn]) {
#pragma unroll
            for (int i = 0; i < kPasses; ++i) {
                const int at = ownRow + i * kOwn;
                loadTokens<kWide>(static_cast<const T*>(from) + (series + at) * length, tile * kTile + ownToken,
                                  at < rows ? length : 0, values[i]);
            }
        };

        T nextDelta[kPasses][kOwn], nextInput[kPasses][kOwn];
        loadMaps(0, 0);
        loadOwn(p.delta, 0, nextDelta);
        loadOwn(p.u, 0, nextInput);
        float bias[kPasses], weight[kPasses];
#pragma unroll
        for (int i = 0; i < kPasses; ++i) {
            const int at = ownRow + i * kOwn;
            bias[i] = at < rows ? __ldg(p.bias + channel + at) : 0.0F;
            weight[i] = at < rows ? __ldg(p.d + channel + at) : 0.0F;
        }
        for (int i = thread; i < L::kRows * pitch; i += kThreads) {
            states[i] = 0.0F;
        }
        float rates[kColumns];
        const auto loadRates = [&](int turn) {
#pragma unroll
            for (int c = 0; c < kColumns; ++c) {
                const int column = turn * L::kStates + c * kLanes + part;
                rates[c] = row < rows && column < count ? kLog2E * __ldg(p.a + (channel + row) * count + column) : 0.0F;
            }
        };
        loadRates(0);
        storeMaps(maps);
        __syncthreads();

        float* now = maps;
        float* later = maps + L::kMapsFloats;
        for (int tile = 0; tile < tiles; ++tile) {
            T gate[kPasses][kOwn];
            T input[kPasses][kOwn];
            if (p.z != nullptr) {
                loadOwn(p.z, tile, gate);
            }
#pragma unroll
            for (int i = 0; i < kPasses; ++i) {
                const int at = ownRow + i * kOwn;
                float size[kOwn], added[kOwn];
#pragma unroll
                for (int j = 0; j < kOwn; ++j) {
                    input[i][j] = nextInput[i][j];
                    const float shifted = toFloat(nextDelta[i][j]) + bias[i];
                    size[j] = tile * kTile + ownToken + j < length ? (p.softplus ? softplus(shifted) : shifted) : 0.0F;
                    added[j] = size[j] * toFloat(input[i][j]);
                }
                storeTokens<true>(steps + at * kPitch, ownToken, kTile, size);
                storeTokens<true>(drives + at * kPitch, ownToken, kTile, added);
            }
            __syncwarp();
            loadOwn(p.delta, tile + 1, nextDelta);
            loadOwn(p.u, tile + 1, nextInput);
            for (int turn = 0; turn < turns; ++turn) {
                const bool last = turn + 1 == turns;
                loadMaps(last ? tile + 1 : tile, last ? 0 : turn + 1);
                if (turns > 1) {
                    loadRates(turn);
                }
                float x[kColumns];
                float* const own = states + row * pitch + turn * L::kStates + part;
#pragma unroll
                for (int c = 0; c < kColumns; ++c) {
                    x[c] = own[c * kLanes];
                }
#pragma unroll 2
                for (int at = 0; at < kTile / 4; ++at) {
                    const float4 step = quad(steps, row, at);
                    const float4 drive = quad(drives, row, at);
                    float4 y = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
                    if (turn > 0) {
                        y = quad(parts, thread, at);
                    }
#pragma unroll
                    for (int c = 0; c < kColumns; ++c) {
                        const float4 mapB = quad(now, c * kLanes + part, at);
                        const float4 mapC = quad(now, L::kStates + c * kLanes + part, at);
                        const auto advance = [&](float s, float d, float b, float m, float& sum) {
                            x[c] = fmaf(exp2Fast(s * rates[c]), x[c], d * b);
                            sum = fmaf(m, x[c], sum);
                        };
                        advance(step.x, drive.x, mapB.x, mapC.x, y.x);
                        advance(step.y, drive.y, mapB.y, mapC.y, y.y);
                        advance(step.z, drive.z, mapB.z, mapC.z, y.z);
                        advance(step.w, drive.w, mapB.w, mapC.w, y.w);
                    }
                    quad(parts, thread, at) = y;
                }
#pragma unroll
                for (int c = 0; c < kColumns; ++c) {
                    own[c * kLanes] = x[c];
                }
                storeMaps(later);
                float* const read = now;
                now = later;
                later = read;
                __syncthreads();
            }
#pragma unroll
            for (int i = 0; i < kPasses; ++i) {
                const int at = ownRow + i * kOwn;
                float result[kOwn];
#pragma unroll
                for (int j = 0; j < kOwn; ++j) {
                    result[j] = weight[i] * toFloat(input[i][j]);
                }
#pragma unroll
                for (int from = 0; from < kLanes; ++from) {
                    const float* const sums = parts + (at * kLanes + from) * kPitch + ownToken;
#pragma unroll
                    for (int j = 0; j < kOwn; j += kOwn < 4 ? 2 : 4) {
                        if constexpr (kOwn < 4) {
                            const float2 sum = *reinterpret_cast<const float2*>(sums + j);
                            result[j] += sum.x, result[j + 1] += sum.y;
                        } else {
                            const float4 sum = *reinterpret_cast<const float4*>(sums + j);
                            result[j] += sum.x, result[j + 1] += sum.y;
                            result[j + 2] += sum.z, result[j + 3] += sum.w;
                        }
                    }
                }
#pragma unroll
                for (int j = 0; p.z != nullptr && j < kOwn; ++j) {
                    result[j] *= silu(toFloat(gate[i][j]));
                }
                storeTokens<kWide>(static_cast<T*>(p.output) + (series + at) * length, tile * kTile + ownToken,
                                   at < rows ? length : 0, result);
            }
            __syncwarp();
        }
        for (int i = thread; i < rows * count; i += kThreads) {
            p.last[series * count + i] = states[i / count * pitch + i % count];
        }
        __syncthreads();
    }
}

template <int kLanes, int kColumns>
cudaError_t scan(Arguments a, cudaStream_t stream) {
    using L = Layout<kLanes, kColumns>;
    a.blocksOfGroup = ceilDivide(a.shape.channels / a.shape.groups, L::kRows);
    a.blocks = a.shape.batch * a.shape.groups * a.blocksOfGroup;
    const int64_t turns = a.shape.states > 0 ? ceilDivide(a.shape.states, L::kStates) : 1;
    const int64_t pitch = turns * L::kStates | 1;
    const int bytes = static_cast<int>((L::kFloats + L::kRows * pitch) * sizeof(float));
    return withFloatType(a.params.type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const bool wide = rowsAreWide<T>(a.params, a.shape.length);
        const auto kernel = wide ? scanKernel<T, true, kLanes, kColumns> : scanKernel<T, false, kLanes, kColumns>;
        const cudaError_t error = allowSharedBytes(kernel, bytes);
        return error != cudaSuccess ? error : launch(kernel, gridBlocks(a.blocks), kThreads, bytes, stream, a);
    });
}

}  // namespace

cudaError_t stateSpaceScan(const StateSpaceScanParams& params, const StateSpaceScanShape& shape, cudaStream_t stream) {
    int64_t values = 0;
    int64_t maps = 0;
    int64_t rates = 0;
    int64_t states = 0;
    int64_t series = 0;
    if (!elementCount({shape.batch, shape.channels, shape.length}, values) ||
        !elementCount({shape.batch, shape.groups, shape.states, shape.length}, maps) ||
        !elementCount({shape.channels, shape.states}, rates) || !elementCount({shape.batch, shape.channels}, series) ||
        !elementCount({shape.batch, shape.channels, shape.states}, states) || shape.states > kMostStates ||
        shape.length > kMostTokens) {
        return cudaErrorInvalidValue;
    }
    if (series == 0) {
        return cudaSuccess;
    }
    if (shape.groups == 0 || shape.channels % shape.groups != 0 || params.d == nullptr || params.bias == nullptr ||
        (rates > 0 && params.a == nullptr) || (states > 0 && params.last == nullptr) ||
        (maps > 0 && (params.b == nullptr || params.c == nullptr)) ||
        (values > 0 && (params.u == nullptr || params.delta == nullptr || params.output == nullptr))) {
        return cudaErrorInvalidValue;
    }
    // Where channels are many they fill the GPU, and each takes its tokens one after the other. Measured on an H200 with 16
    // columns in float16: 8 x 1536 channels of 2048 tokens take 249 us so and 382 us in chunks, 1536 channels 86 and 49 us.
    // Many columns: they and 32 channels' states would need more than 48 KiB of shared memory.
    if (shape.length >= kManyTokens && series < kManySeries) {
        return scanChunks(params, shape, series, stream);
    }
    const Arguments a{params, shape, 0, 0};
    return series < kManySeries || shape.states > 64 ? scan<16, 1>(a, stream) : scan<4, 4>(a, stream);
}

}  // namespace trtsmith
