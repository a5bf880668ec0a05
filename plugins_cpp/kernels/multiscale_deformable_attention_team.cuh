// The kernel of multi-scale deformable attention for heads of 2, 4, 8 or 16 words of 16 bytes (16, 32 and 64 channels
// of any type among them).
//
// A team of 16 lanes owns one (batch, query, head). Each lane places one sample: the rows of its two left neighbours and
// four factors, left in shared memory. Then the team splits into groups of as many lanes as a head has words; a group
// gathers one sample at a time, so that no address or weight is computed twice, and the groups' sums are added by
// shuffles. Blocks stay on the chip and take equal ranges of neighbouring queries of the same heads, for the first-level
// cache. docs/maintainers/kernel-notes.md has the measurements.
#pragma once

#include "multiscale_deformable_attention_exact.cuh"
#include "multiscale_deformable_attention_layout.cuh"
#include "multiscale_deformable_attention_place.cuh"
#include "multiscale_deformable_attention_range.cuh"
#include "multiscale_deformable_attention_source.cuh"

namespace trtsmith {

// kRowBytes: of a row of value, or 0 for any. kSingle: a query and head has exactly kTeam samples.
template <typename Source, int kWords, int kRowBytes, bool kSingle>
__global__ void __launch_bounds__(kTeamThreads, kTeamBlocks) teamKernel(const TeamArguments<Source> a) {
    using T = typename Source::Element;
    constexpr int kVector = 16 / static_cast<int>(sizeof(T));
    constexpr int kGroups = TeamLane<kWords>::kGroups;
    constexpr int kResults = kVector / kGroups;            // channels that a lane writes
    constexpr int kSecond = kTeam + kGroups % kTeam;       // of a warp's second team: the two read different banks
    constexpr int kPlaces = kSecond + kTeam;               // of a warp
    __shared__ TeamLevel levels[kMaxTeamSamples + kTeam];  // of each sample
    __shared__ uint2 sampleRows[kTeamWarps * kPlaces];
    __shared__ float4 sampleFactors[kTeamWarps * kPlaces];

    const TeamLane<kWords> lane(static_cast<int>(threadIdx.x));
    uint2* const rows = sampleRows + lane.warp * kPlaces + lane.team * kSecond;
    float4* const factors = sampleFactors + lane.warp * kPlaces + lane.team * kSecond;
    const int count = kSingle ? kTeam : a.count;

    typename Source::template References<kSingle> references(lane.lane, count, a);
    TeamRange<Source, kWords> range(static_cast<int>(blockIdx.x), lane);
    int item = lane.warp;
    int query = 0;
    typename Source::Raw raw{};
    // Loads the first samples of `item`, if there is one.
    const auto begin = [&] {
        const bool more = range.enter(item, a, lane);
        if (more) {
            query = range.queryOf(item, a);
            raw = range.load(query, 0, query < a.queries && lane.lane < count, references.first(), a);
        }
        return more;
    };
    bool more = begin();

    // While those loads are under way.
    bool odd = false;
    for (int i = static_cast<int>(threadIdx.x); i < count + kTeam; i += kTeamThreads) {
        // Lanes behind the last sample place one of weight 0, on level 0.
        const LevelBounds level =
            loadBounds(a.spatialShapes, a.levelStartIndex, i < count ? i / a.points : 0, a.wideIndices);
        levels[i] = teamLevel(level);
        references.prepare(i, count, a);
        odd = odd || !isPlain(level, a.keys);
    }
    const bool plain = __syncthreads_or(odd ? 1 : 0) == 0;

    bool finite = true;
    while (more && plain) {
        const int next = item + kTeamWarps;
        const int current = query;
        typename Source::template TeamWeights<kWords, kSingle> weights;
        float sums[kVector];
        clear(sums);
        int base = 0;
#pragma unroll 1
        do {
            const char* const right = range.value + a.rowBytes;
            const bool mine = kSingle || base + lane.lane < count;
            const uint32_t reference = references.of(base + lane.lane);
            const float2 pair = positionOf(raw);
            const float weight = weights.next(raw.weight, mine, sums);
            const TeamLevel level = levels[base + lane.lane];
            const SampleHats hats = range.hats(pair, raw, query, reference, mine && query < a.queries, level, a);
            const PlacedSample placed = placeSample(hats, weight, level, a.rowWords);
            __syncwarp();
            rows[lane.lane] = placed.rows;
            factors[lane.lane] = placed.factors;
            __syncwarp();
            // The next sample of this lane, so that its latency passes under the gathers.
            const int remaining = count - base;
            base += kTeam;
            if (!kSingle && base < count) {
                raw = range.load(query, base, query < a.queries && base + lane.lane < count,
                                 references.of(base + lane.lane), a);
            } else if (next < range.segmentEnd) {
                query = range.queryOf(next, a);
                raw = range.load(query, 0, query < a.queries && lane.lane < count, references.first(), a);
            }
            if (kSingle || remaining >= kTeam) {
#pragma unroll kTeamUnroll
                for (int step = 0; step < kWords; ++step) {
                    const int sample = step * kGroups + lane.group;
                    addSample<T, kRowBytes>(range.value, right, rows[sample], factors[sample], sums);
                }
            } else {
#pragma unroll 1
                for (int first = 0; first < remaining; first += kGroups) {
                    const int sample = first + lane.group;
                    addSample<T, kRowBytes>(range.value, right, rows[sample], factors[sample], sums);
                }
            }
        } while (!kSingle && base < count);
        lane.exchange(sums);
        weights.template finish<kResults>(sums);
        float size = 0.0F;
#pragma unroll
        for (int k = 0; k < kResults; ++k) {
            size += fabsf(sums[k]);
        }
        finite = finite && size < INFINITY;
        range.store(current, sums, a);
        item = next;
        if (item >= range.segmentEnd) {
            more = begin();
        }
    }

    // The whole block again where any item is not finite. To repeat that item alone would take a branch, and registers, in
    // the loop; what is not finite is rare, and most often an error upstream.
    if (__syncthreads_or(finite && plain ? 0 : 1) != 0) {
        computeExactly(a, lane);
    }
}

template <typename Source, int kWords, int kRowBytes>
cudaError_t launchTeams(const TeamArguments<Source>& a, int32_t blocks, cudaStream_t stream) {
    const auto kernel =
        a.count == kTeam ? teamKernel<Source, kWords, kRowBytes, true> : teamKernel<Source, kWords, kRowBytes, false>;
    return launch(kernel, static_cast<unsigned int>(blocks), kTeamThreads, 0, stream, a);
}

template <typename Source, int kWords>
cudaError_t launchTeams(TeamArguments<Source> a, cudaStream_t stream) {
    using T = typename Source::Element;
    int device = 0;
    int multiprocessors = 0;
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess) {
        error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
    }
    if (error != cudaSuccess) {
        return error;
    }
    const int32_t blocks = divideItems(a, kWords, multiprocessors);
    // 8 heads of 32 channels, as most models have: with the distance to the right neighbours in the load, bf16 encoder
    // local took 68.3 us instead of 68.6, BEVFormer 313 instead of 321 (both with queries handed out by a counter).
    if constexpr (kWords * 16 == 32 * sizeof(T)) {
        if (a.heads == 8) {
            return launchTeams<Source, kWords, kWords * 16 * 8>(a, blocks, stream);
        }
    }
    return launchTeams<Source, kWords, 0>(a, blocks, stream);
}

// For what teamFits accepts.
template <typename Source>
cudaError_t launchTeams(const TeamArguments<Source>& a, const MultiscaleDeformableAttentionShape& shape,
                        cudaStream_t stream) {
    using T = typename Source::Element;
    switch (shape.channels * static_cast<int64_t>(sizeof(T)) / 16) {
        case 2:
            if constexpr (sizeof(T) == 2) {
                return launchTeams<Source, 2>(a, stream);
            }
            return cudaErrorInvalidValue;
        case 4:
            return launchTeams<Source, 4>(a, stream);
        case 8:
            return launchTeams<Source, 8>(a, stream);
        default:
            return launchTeams<Source, 16>(a, stream);
    }
}

}  // namespace trtsmith
