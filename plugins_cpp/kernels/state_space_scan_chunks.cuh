// The selective scan of few channels. kLanes lanes share the tokens of a channel: each has kItems of a chunk, and runs through
// them twice, first for the state that they add, then from the state before them. Between the runs the lanes combine pairs
// (decay, state). What a lane reads of b and c serves kSeries neighbouring channels, so that it is widened once. The warps of
// a block share the columns of the state, and add their results up in shared memory.
#pragma once

#include "kernels/state_space_scan_tokens.cuh"

namespace trtsmith {

constexpr int kItems = 8;
constexpr int kTeam = 4;  // warps

struct ChunkArguments {
    StateSpaceScanParams params;
    StateSpaceScanShape shape;
    int64_t series;
    int64_t blocks;
};

// From shared memory: kCount numbers at a multiple of 8 bytes.
template <int kCount>
__device__ inline void loadShared(const float* from, float (&values)[kCount]) {
    using Word = typename WordOf<kCount % 4 == 0 ? 16 : 8>::type;
    constexpr int kWidth = sizeof(Word) / sizeof(float);
#pragma unroll
    for (int i = 0; i < kCount; i += kWidth) {
        const Word word = *reinterpret_cast<const Word*>(from + i);
        memcpy(values + i, &word, sizeof(word));
    }
}

template <typename T, bool kWide, int kLanes, int kSeries, int kBlocks>
__global__ void __launch_bounds__(kTeam * 32, kBlocks) chunkKernel(const __grid_constant__ ChunkArguments a) {
    constexpr int kRows = 32 / kLanes * kSeries;    // channels of a block
    constexpr int kTile = kLanes * kItems;          // tokens of a chunk
    constexpr int kOwn = kItems * kSeries / kTeam;  // tokens that a thread itself loads and stores
    __shared__ __align__(16) float steps[kRows][kTile], drives[kRows][kTile], parts[kTeam][kRows][kTile];
    extern __shared__ float2 columns[];  // [kRows, states | 1]: the rate of decay, and the state between chunks

    const int thread = static_cast<int>(threadIdx.x);
    const int member = thread / 32;
    const int place = thread % kLanes;
    const int first = thread % 32 / kLanes * kSeries;
    const int ownRow = thread * kOwn / kTile;
    const int ownToken = thread * kOwn % kTile;

    const StateSpaceScanParams& p = a.params;
    const int states = static_cast<int>(a.shape.states);
    const int length = static_cast<int>(a.shape.length);
    const int channels = static_cast<int>(a.shape.channels);
    const int turns = (states + kTeam - 1) / kTeam;
    const int pitch = turns * kTeam | 1;
    float2* const own = columns + first * pitch;

    for (int64_t block = blockIdx.x; block < a.blocks; block += gridDim.x) {
        const int64_t begin = block * kRows;
        const int rows = static_cast<int>(a.series - begin < kRows ? a.series - begin : kRows);
        const int channel = static_cast<int>(begin % a.shape.channels);
        for (int i = thread; i < kRows * pitch; i += kTeam * 32) {
            const int row = i / pitch;
            const int s = i % pitch;
            const int64_t from = (channel + row) % channels * static_cast<int64_t>(states) + s;
            columns[i] = make_float2(s < states && row < rows ? kLog2E * __ldg(p.a + from) : 0.0F, 0.0F);
        }
        __syncthreads();
        const bool any = first < rows;
        const int64_t series = any ? begin + first : 0;
        const int64_t group = series % channels / (channels / a.shape.groups);
        const int64_t maps = (series / channels * a.shape.groups + group) * states * length;
        const int64_t ownStart = (begin + ownRow) * length;
        const int ownLength = ownRow < rows ? length : 0;
        const int end = any ? length : 0;
        const float bias = __ldg(p.bias + (channel + ownRow) % channels);
        const float weight = __ldg(p.d + (channel + ownRow) % channels);

        T nextDelta[kOwn], nextInput[kOwn], nextGate[kOwn];
        const auto loadOwn = [&](const void* from, int at, T(&values)[kOwn]) {
            loadTokens<kWide>(static_cast<const T*>(from) + ownStart, at + ownToken, ownLength, values);
        };
        const auto loadChunk = [&](int at) {
            loadOwn(p.delta, at, nextDelta);
            loadOwn(p.u, at, nextInput);
            if (p.z != nullptr) {
                loadOwn(p.z, at, nextGate);
            }
        };
        loadChunk(0);
        for (int tile = 0; tile < length; tile += kTile) {
            float step[kSeries][kItems], drive[kSeries][kItems], y[kSeries][kItems] = {};
            float result[kOwn];
            T gate[kOwn];
            {
                float size[kOwn], added[kOwn];
#pragma unroll
                for (int i = 0; i < kOwn; ++i) {
                    const float input = toFloat(nextInput[i]);
                    const float shifted = toFloat(nextDelta[i]) + bias;
                    size[i] = tile + ownToken + i < length ? (p.softplus ? softplus(shifted) : shifted) : 0.0F;
                    result[i] = weight * input;
                    added[i] = input * size[i];
                    gate[i] = nextGate[i];
                }
                storeTokens<true>(steps[ownRow], ownToken, kTile, size);
                storeTokens<true>(drives[ownRow], ownToken, kTile, added);
            }
            loadChunk(tile + kTile);
            __syncthreads();
            float whole[kSeries] = {};
#pragma unroll
            for (int k = 0; k < kSeries; ++k) {
                loadShared(steps[first + k] + place * kItems, step[k]);
                loadShared(drives[first + k] + place * kItems, drive[k]);
#pragma unroll
                for (int i = 0; i < kItems; ++i) {
                    whole[k] += step[k][i];
                }
            }
            const int at = tile + place * kItems;
            const T* rowB = static_cast<const T*>(p.b) + maps + member * static_cast<int64_t>(length);
            const T* rowC = static_cast<const T*>(p.c) + maps + member * static_cast<int64_t>(length);
            T nextB[kItems], nextC[kItems];
            loadTokens<kWide>(rowB, at, member < states ? end : 0, nextB);
            loadTokens<kWide>(rowC, at, member < states ? end : 0, nextC);
#pragma unroll 1
            for (int turn = 0; turn < turns; ++turn) {  // as many for every member: all lanes are at every shuffle
                const int s = turn * kTeam + member;
                float mapB[kItems], mapC[kItems];
#pragma unroll
                for (int i = 0; i < kItems; ++i) {
                    mapB[i] = toFloat(nextB[i]);
                    mapC[i] = toFloat(nextC[i]);
                }
                rowB += kTeam * static_cast<int64_t>(length);
                rowC += kTeam * static_cast<int64_t>(length);
                loadTokens<kWide>(rowB, at, s + kTeam < states ? end : 0, nextB);
                loadTokens<kWide>(rowC, at, s + kTeam < states ? end : 0, nextC);
                float2 column[kSeries];
                float decay[kSeries][kItems], state[kSeries], fall[kSeries];
#pragma unroll
                for (int k = 0; k < kSeries; ++k) {
                    column[k] = own[k * pitch + s];
                    state[k] = place == 0 ? column[k].y : 0.0F;
                    fall[k] = exp2Fast(whole[k] * column[k].x);
#pragma unroll
                    for (int i = 0; i < kItems; ++i) {
                        decay[k][i] = exp2Fast(step[k][i] * column[k].x);
                        state[k] = fmaf(decay[k][i], state[k], drive[k][i] * mapB[i]);
                    }
                }
#pragma unroll
                for (int apart = 1; apart < kLanes; apart *= 2) {
#pragma unroll
                    for (int k = 0; k < kSeries; ++k) {
                        const float earlier = __shfl_up_sync(0xffffffffU, state[k], apart, kLanes);
                        const float more = __shfl_up_sync(0xffffffffU, fall[k], apart, kLanes);
                        if (place >= apart) {
                            state[k] = fmaf(fall[k], earlier, state[k]);
                            fall[k] *= more;
                        }
                    }
                }
#pragma unroll
                for (int k = 0; k < kSeries; ++k) {
                    if (place == kLanes - 1) {
                        own[k * pitch + s].y = state[k];
                    }
                    const float reached = __shfl_up_sync(0xffffffffU, state[k], 1, kLanes);
                    float before = place == 0 ? column[k].y : reached;
#pragma unroll
                    for (int i = 0; i < kItems; ++i) {
                        before = fmaf(decay[k][i], before, drive[k][i] * mapB[i]);
                        y[k][i] = fmaf(mapC[i], before, y[k][i]);
                    }
                }
            }
            __syncwarp();  // the last lane's states of this chunk, for the first lane's next
#pragma unroll
            for (int k = 0; k < kSeries; ++k) {
                storeTokens<true>(parts[member][first + k], place * kItems, kTile, y[k]);
            }
            __syncthreads();
#pragma unroll
            for (int m = 0; m < kTeam; ++m) {
                float part[kOwn];
                loadShared(parts[m][ownRow] + ownToken, part);
#pragma unroll
                for (int i = 0; i < kOwn; ++i) {
                    result[i] += part[i];
                }
            }
#pragma unroll
            for (int i = 0; p.z != nullptr && i < kOwn; ++i) {
                result[i] *= silu(toFloat(gate[i]));
            }
            storeTokens<kWide>(static_cast<T*>(p.output) + ownStart, tile + ownToken, ownLength, result);
        }
        __syncthreads();
        for (int i = thread; i < rows * states; i += kTeam * 32) {
            p.last[begin * states + i] = columns[i / states * pitch + i % states].y;
        }
        __syncthreads();
    }
}

template <int kLanes, int kSeries, int kBlocks>
cudaError_t launchChunks(ChunkArguments a, cudaStream_t stream) {
    constexpr int kRows = 32 / kLanes * kSeries;
    a.blocks = ceilDivide(a.series, int64_t{kRows});
    const size_t pitch = static_cast<size_t>(ceilDivide(a.shape.states, kTeam)) * kTeam | 1;
    return withFloatType(a.params.type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const bool wide = rowsAreWide<T>(a.params, a.shape.length);
        return launch(
            wide ? chunkKernel<T, true, kLanes, kSeries, kBlocks> : chunkKernel<T, false, kLanes, kSeries, kBlocks>,
            gridBlocks(a.blocks), kTeam * 32, kRows * pitch * sizeof(float2), stream, a);
    });
}

// Measured on an H200: 192 channels of 3136 tokens take 28 us with all lanes of a warp for one, and 53 us with two a warp.
// Of 2048 tokens, 1536 channels take 49 us with 3 blocks a multiprocessor and 53 us with 4, for which registers do not
// suffice; 2048 channels, which are more than 3 blocks for each, 85 and 65 us.
inline cudaError_t scanChunks(const StateSpaceScanParams& params, const StateSpaceScanShape& shape, int64_t series,
                              cudaStream_t stream) {
    constexpr int64_t kFewSeries = 512;
    const ChunkArguments a{params, shape, series, 0};
    const bool pairs = shape.channels / shape.groups % 2 == 0;  // neighbours of one group
    if (series <= kFewSeries || !pairs) {
        return launchChunks<32, 1, 5>(a, stream);
    }
    int device = 0;
    int multiprocessors = 0;
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess) {
        error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
    }
    if (error != cudaSuccess) {
        return error;
    }
    return ceilDivide(series, int64_t{4}) <= int64_t{3} * multiprocessors ? launchChunks<16, 2, 3>(a, stream)
                                                                          : launchChunks<16, 2, 4>(a, stream);
}

}  // namespace trtsmith
