// The kernel of multi-scale deformable attention for heads of 2, 4, 8 or 16 words of 16 bytes (16, 32 and 64 channels
// of any type among them).
//
// A team of 16 lanes owns one (batch, query, head). Each lane prepares one sample: four word indices and four factors,
// left in shared memory. Then the team splits into groups of as many lanes as a head has words; a group gathers one
// sample at a time, so that no address or weight is computed twice, and the groups' sums are added by shuffles.
// Blocks stay on the chip and take equal ranges of neighbouring queries of the same heads, for the first-level cache.
// plugins_cpp/NOTES.md has the measurements.
#pragma once

#include "convert.cuh"
#include "dispatch.cuh"
#include "multiscale_deformable_attention.cuh"
#include "multiscale_deformable_attention_cell.cuh"
#include "multiscale_deformable_attention_words.cuh"

namespace trtsmith {

constexpr int kTeam = 16;
// One block of 24 warps a multiprocessor and four samples unrolled (80 registers). Deformable-DETR's encoder, batch 1,
// on an H200, random / local samples in us: fp16 77.2 / 73.0, bf16 79.5 / 75.6, fp32 115.9 / 103.9. Against it:
// 20 warps 73.4 / 72.3, 78.8 / 78.0, 121.2 / 105.7; 22 warps fp16 80.1 / 76.7; two blocks of 10 warps fp32 137.9.
constexpr int kTeamThreads = 768;
constexpr int kTeamBlocks = 1;  // per multiprocessor
constexpr int kTeamUnroll = 4;
constexpr int kMaxTeamLevels = 64;  // in shared memory
constexpr int64_t kMaxTeamPoints = 1 << 16;
constexpr int64_t kMaxTeamSites = 1 << 30;  // of a batch

template <typename T>
struct TeamArguments {
    const T* value;
    const void* spatialShapes;
    const void* levelStartIndex;
    const T* samplingLocations;
    const T* attentionWeights;
    T* output;
    int64_t keys;
    int32_t queries;
    int32_t heads;
    int32_t levels;
    int32_t points;
    int32_t bundle;       // heads that share a 128-byte line of value, worked on side by side
    uint32_t rowWords;    // 16-byte words of a row of value
    int32_t batch;
    int32_t rounds;       // of one bundle and batch: a block handles a round at a time, one site a team
    int32_t share;        // rounds of each block in a batch
    int32_t shareRest;    // so many blocks have one more, other blocks in each batch
    bool wideIndices;
};

struct alignas(16) TeamLevel {
    int32_t height;
    int32_t width;
    uint32_t start;
    bool inside;  // every row of the level is a row of value
};

template <typename T, int kWords>
__global__ void __launch_bounds__(kTeamThreads, kTeamBlocks) teamKernel(const TeamArguments<T> a) {
    constexpr int kVector = 16 / static_cast<int>(sizeof(T));
    constexpr int kGroups = kTeam / kWords;
    constexpr int kResults = kVector / kGroups;  // channels that a lane writes
    static_assert(kResults > 0, "more groups than channels in a word");
    constexpr int kTeams = kTeamThreads / kTeam;
    constexpr int kPadded = kTeam + kGroups % kTeam;  // the two teams of a warp read different banks
    __shared__ TeamLevel levels[kMaxTeamLevels];
    __shared__ uint4 sampleIndices[kTeams * kPadded];
    __shared__ float4 sampleFactors[kTeams * kPadded];

    for (int i = static_cast<int>(threadIdx.x); i < a.levels; i += kTeamThreads) {
        TeamLevel level{};
        level.height = levelSide(loadIndex(a.spatialShapes, i * 2, a.wideIndices));
        level.width = levelSide(loadIndex(a.spatialShapes, i * 2 + 1, a.wideIndices));
        const uint64_t start = static_cast<uint64_t>(loadIndex(a.levelStartIndex, i, a.wideIndices));
        const uint64_t keys = static_cast<uint64_t>(a.keys);
        const uint64_t area = static_cast<uint64_t>(level.height) * static_cast<uint64_t>(level.width);
        level.start = static_cast<uint32_t>(start);
        level.inside = start <= keys && area <= keys - start;
        levels[i] = level;
    }
    __syncthreads();

    // Groups of a warp's two teams alternate: with two heads in a line of 128 bytes, the eight lanes that the cache
    // serves at a time then read both halves of its banks, not one half twice (14.3 to 11.3 million wavefronts).
    const int warpLane = static_cast<int>(threadIdx.x) % 32;
    const int word = warpLane % kWords;
    const int group = warpLane / (2 * kWords);
    const int team = static_cast<int>(threadIdx.x) / 32 * 2 + warpLane / kWords % 2;
    const int lane = group * kWords + word;
    uint4* const indices = sampleIndices + team * kPadded;
    float4* const factors = sampleFactors + team * kPadded;

    int firstResult = 0;
    for (int offset = kTeam, channels = kVector / 2; offset >= 2 * kWords; offset /= 2, channels /= 2) {
        firstResult += (warpLane & offset) != 0 ? channels : 0;
    }

    const int count = a.levels * a.points;
    const int firstLevel = lane / a.points;
    const int firstPoint = lane - firstLevel * a.points;
    const int levelStep = kTeam / a.points;
    const int pointStep = kTeam - levelStep * a.points;

    const int roundQueries = kTeams / a.bundle;
    const int blocks = static_cast<int>(gridDim.x);
    const int64_t siteStep = static_cast<int64_t>(roundQueries) * a.heads;

    int turn = static_cast<int>(blockIdx.x);
    int round = 0;
    int end = 0;
    // All blocks finish a batch before the next: the values of many batches together do not fit the second-level cache.
    for (int batch = -1;;) {
        if (round == end) {
            if (++batch == a.batch) {
                break;
            }
            round = turn * a.share + (turn < a.shareRest ? turn : a.shareRest);
            end = round + a.share + (turn < a.shareRest ? 1 : 0);
            turn = turn >= a.shareRest ? turn - a.shareRest : turn - a.shareRest + blocks;
            continue;
        }
        const int plane = round / a.rounds;
        const int inPlane = round - plane * a.rounds;
        const int rest = a.rounds - inPlane;
        const int stop = rest < end - round ? rest : end - round;  // rounds of this bundle
        round += stop;
        const int head = plane * a.bundle + team % a.bundle;
        int query = inPlane * roundQueries + team / a.bundle;
        const uint4* value = reinterpret_cast<const uint4*>(a.value) +
                             batch * a.keys * static_cast<int64_t>(a.rowWords) + head * kWords + word;
        const int64_t site = (static_cast<int64_t>(batch) * a.queries + query) * a.heads + head;
        const T* weights = a.attentionWeights + site * count;
        const T* locations = a.samplingLocations + site * count * 2;
        T* output = a.output + (site * kWords + word) * kVector + firstResult;

        RawSample<T> raw = loadSample(locations, weights, lane, query < a.queries && lane < count);
        for (int i = 0; i < stop; ++i, query += roundQueries) {
            float sums[kVector];
#pragma unroll
            for (int k = 0; k < kVector; ++k) {
                sums[k] = 0.0F;
            }
            int levelIndex = firstLevel;
            int point = firstPoint;
            for (int base = 0; base < count; base += kTeam) {
                const int sample = base + lane;
                uint4 index = make_uint4(kNowhere, kNowhere, kNowhere, kNowhere);
                float4 factor = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
                if (query < a.queries && sample < count) {
                    const TeamLevel level = levels[levelIndex];
                    T location[2];
                    memcpy(static_cast<void*>(location), &raw.location, sizeof(raw.location));
                    const float weight = toFloat(raw.weight);
                    const BilinearCell cell =
                        locationCell<T>(toFloat(location[0]), toFloat(location[1]), level.height, level.width);
                    uint32_t valid = cell.valid;
                    if (!level.inside) {
                        const int64_t start = loadIndex(a.levelStartIndex, levelIndex, a.wideIndices);
                        const int64_t inLevel = static_cast<int64_t>(cell.row) * level.width + cell.column;
                        const uint64_t row = static_cast<uint64_t>(start) + static_cast<uint64_t>(inLevel);
                        for (int c = 0; c < 4; ++c) {
                            const uint64_t below = c >= 2 ? static_cast<uint64_t>(level.width) : 0U;
                            valid &= row + below + (c & 1) < static_cast<uint64_t>(a.keys) ? 15U : ~(1U << c);
                        }
                    }
                    // Modulo 2^32: a valid row times rowWords is below it, whatever the others give.
                    const uint32_t width = static_cast<uint32_t>(level.width);
                    const uint32_t first = (level.start + static_cast<uint32_t>(cell.row) * width +
                                            static_cast<uint32_t>(cell.column)) * a.rowWords;
                    const uint32_t second = first + width * a.rowWords;
                    // Zero, and not weight * 0, so that a point outside stays without effect for any weight.
                    index.x = (valid & 1U) != 0U ? first : kNowhere;
                    index.y = (valid & 2U) != 0U ? first + a.rowWords : kNowhere;
                    index.z = (valid & 4U) != 0U ? second : kNowhere;
                    index.w = (valid & 8U) != 0U ? second + a.rowWords : kNowhere;
                    factor.x = (valid & 1U) != 0U ? weight * cell.weights[0] : 0.0F;
                    factor.y = (valid & 2U) != 0U ? weight * cell.weights[1] : 0.0F;
                    factor.z = (valid & 4U) != 0U ? weight * cell.weights[2] : 0.0F;
                    factor.w = (valid & 8U) != 0U ? weight * cell.weights[3] : 0.0F;
                }
                __syncwarp();
                indices[lane] = index;
                factors[lane] = factor;
                __syncwarp();
                // The next sample of this lane, so that its latency passes under the gathers.
                if (base + kTeam < count) {
                    raw = loadSample(locations, weights, sample + kTeam, query < a.queries && sample + kTeam < count);
                    levelIndex += levelStep;
                    point += pointStep;
                    if (point >= a.points) {
                        point -= a.points;
                        ++levelIndex;
                    }
                } else if (i + 1 < stop) {
                    locations += siteStep * count * 2;
                    weights += siteStep * count;
                    raw = loadSample(locations, weights, lane, query + roundQueries < a.queries && lane < count);
                }
                const int remaining = count - base;
                if (remaining >= kTeam) {
#pragma unroll kTeamUnroll
                    for (int step = 0; step < kWords; ++step) {
                        addSample<T>(value, indices[step * kGroups + group], factors[step * kGroups + group], sums);
                    }
                } else {
#pragma unroll 1
                    for (int first = 0; first < remaining; first += kGroups) {
                        addSample<T>(value, indices[first + group], factors[first + group], sums);
                    }
                }
            }
            // Each exchange halves the channels that a lane adds up; in the end each lane writes its own.
            int channels = kVector;
#pragma unroll
            for (int offset = kTeam; offset >= 2 * kWords; offset /= 2) {
                channels /= 2;
                const bool upper = (warpLane & offset) != 0;
#pragma unroll
                for (int k = 0; k < channels; ++k) {
                    const float other = upper ? sums[k] : sums[k + channels];
                    const float own = upper ? sums[k + channels] : sums[k];
                    sums[k] = own + __shfl_xor_sync(0xffffffffU, other, offset);
                }
            }
            if (query < a.queries) {
                float results[kResults];
#pragma unroll
                for (int k = 0; k < kResults; ++k) {
                    results[k] = sums[k];
                }
                storeFloats<kResults>(output, results);
            }
            output += siteStep * kWords * kVector;
        }
    }
}

// Whether teamKernel can take the problem: word indices fit in 32 bits, lanes load aligned words and pairs.
template <typename T>
bool teamFits(const TeamArguments<T>& a, const MultiscaleDeformableAttentionShape& shape) {
    const int64_t bytes = shape.channels * static_cast<int64_t>(sizeof(T));
    return ((bytes == 32 && sizeof(T) == 2) || bytes == 64 || bytes == 128 || bytes == 256) && isAligned(a.value, 16) &&
           isAligned(a.output, 16) && isAligned(a.samplingLocations, 2 * sizeof(T)) && shape.levels > 0 &&
           shape.levels <= kMaxTeamLevels && shape.points > 0 && shape.points <= kMaxTeamPoints &&
           shape.batch <= INT32_MAX && shape.queries * shape.heads <= kMaxTeamSites &&
           shape.keys * shape.heads * (bytes / 16) < int64_t{kNowhere};
}

template <typename T, int kWords>
cudaError_t launchTeams(TeamArguments<T> a, cudaStream_t stream) {
    int device = 0;
    int multiprocessors = 0;
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess) {
        error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
    }
    if (error != cudaSuccess) {
        return error;
    }
    a.bundle = 1;
    while (a.bundle * kWords * 16 < 128 && a.heads % (a.bundle * 2) == 0) {
        a.bundle *= 2;
    }
    a.rowWords = static_cast<uint32_t>(a.heads) * kWords;
    a.rounds = static_cast<int32_t>(ceilDivide(a.queries, kTeamThreads / kTeam / a.bundle));
    const int32_t rounds = a.rounds * (a.heads / a.bundle);
    const int32_t resident = multiprocessors * kTeamBlocks;
    const int32_t blocks = rounds < resident ? rounds : resident;
    a.share = rounds / blocks;
    a.shareRest = rounds % blocks;
    return launch(teamKernel<T, kWords>, static_cast<unsigned int>(blocks), kTeamThreads, 0, stream, a);
}

template <typename T>
cudaError_t launchTeams(const TeamArguments<T>& a, const MultiscaleDeformableAttentionShape& shape,
                        cudaStream_t stream) {
    switch (shape.channels * static_cast<int64_t>(sizeof(T)) / 16) {
        case 2:
            if constexpr (sizeof(T) == 2) {
                return launchTeams<T, 2>(a, stream);
            }
            return cudaErrorInvalidValue;
        case 4:
            return launchTeams<T, 4>(a, stream);
        case 8:
            return launchTeams<T, 8>(a, stream);
        default:
            return launchTeams<T, 16>(a, stream);
    }
}

}  // namespace trtsmith
