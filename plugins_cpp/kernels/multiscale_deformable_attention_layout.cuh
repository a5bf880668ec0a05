// The arguments of the team kernel of multi-scale deformable attention, and the division of its work among a warp's lanes.
#pragma once

#include "dispatch.cuh"
#include "multiscale_deformable_attention.cuh"

namespace trtsmith {

constexpr int kTeam = 16;  // lanes of one (batch, query, head)
// One block of 24 warps a multiprocessor and four samples unrolled (80 registers). Deformable-DETR's encoder, batch 1,
// local / random samples, on an H200, in us: bf16 67.5 / 68.5, fp16 66.2 / 67.0, fp32 94.8 / 108.9. With queries handed
// out by a counter: 24 warps 68.3 / 68.1, 65.8 / 66.1, 96.9 / 109.4; 28 warps 67.1 / 68.5, 65.6 / 67.3, 96.6 / 114.4; 32
// warps, two samples unrolled, 68.8 / 73.8, 67.4 / 73.7, 96.6 / 117.3.
constexpr int kTeamThreads = 768;
constexpr int kTeamWarps = kTeamThreads / 32;
constexpr int kTeamBlocks = 1;  // per multiprocessor
constexpr int kTeamUnroll = 4;
constexpr int kMaxTeamSamples = 128;  // of a query and head: the level of each is in shared memory
// (batch, query, head)s: numbers of items, and of queries of items, stay far inside 32 bits.
constexpr int64_t kMaxTeamSites = 1 << 29;

// An item is what a warp does at a time, a (batch, query, head) for each of its two teams: two heads of one query where
// two rows of one head share a line of 128 bytes of value and their number is even (a bundle of 2), else two queries of
// one head.
// Source says where samples come from: GivenSamples or OffsetSamples.
template <typename Source>
struct TeamArguments : Source::Arguments {
    using T = typename Source::Element;
    using Extra = typename Source::Arguments;

    const T* value;
    const void* spatialShapes;
    const void* levelStartIndex;
    const T* positions;  // a pair of each sample: location, or offset
    const T* weights;    // of each sample, or its logit
    T* output;
    int64_t keys;
    int32_t batch;
    int32_t queries;
    int32_t heads;
    int32_t points;
    int32_t count;        // samples of a query and head: levels * points
    int32_t bundle;       // heads of an item
    int32_t itemQueries;  // queries of an item
    uint32_t weightStep;  // bytes of the weights of a query
    uint32_t rowBytes;    // of a row of value
    uint32_t rowWords;    // rowBytes / 16
    int32_t items;        // of one bundle and batch
    int32_t share;        // items of each block in a batch
    int32_t shareRest;    // so many blocks have one more, other blocks in each batch
    bool wideIndices;
};

// A lane of a team. The team splits into groups of as many lanes as a head has words; each group adds samples of its own.
// Groups of a warp's two teams alternate: with two heads in a line of 128 bytes, the eight lanes that the cache serves
// at a time then read both halves of its banks, not one half twice (14.3 to 11.3 million wavefronts).
template <int kWords>
struct TeamLane {
    static constexpr int kGroups = kTeam / kWords;

    int word;  // of the head, that this lane adds up
    int group;
    int team;  // of the warp: 0 or 1
    int lane;  // of the team
    int warpLane;
    int warp;  // of the block

    __device__ explicit TeamLane(int thread)
        : word(thread % 32 % kWords),
          group(thread % 32 / (2 * kWords)),
          team(thread % 32 / kWords % 2),
          lane(group * kWords + word),
          warpLane(thread % 32),
          warp(thread / 32) {}

    // Adds the groups' sums; each exchange halves the channels that a lane adds up, and in the end each has its own, the
    // first kVector / kGroups of `sums`. All lanes of the warp call it.
    template <int kVector>
    __device__ void exchange(float (&sums)[kVector]) const {
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
    }

    // Which channel of its word those start at.
    template <int kVector>
    __device__ int firstResult() const {
        int first = 0;
        for (int offset = kTeam, channels = kVector / 2; offset >= 2 * kWords; offset /= 2, channels /= 2) {
            first += (warpLane & offset) != 0 ? channels : 0;
        }
        return first;
    }
};

// Whether the team kernel can take the problem: words of value, and bytes of a query's samples, are counted in 32 bits,
// lanes load aligned words and pairs.
template <typename Source>
bool teamFits(const TeamArguments<Source>& a, const MultiscaleDeformableAttentionShape& shape) {
    using T = typename Source::Element;
    const int64_t bytes = shape.channels * static_cast<int64_t>(sizeof(T));
    const bool words = (bytes == 32 && sizeof(T) == 2) || bytes == 64 || bytes == 128 || bytes == 256;
    const bool aligned = isAligned(a.value, 16) && isAligned(a.output, 16) && isAligned(a.positions, 2 * sizeof(T)) &&
                         Source::isAlignedToPairs(a);
    // Each alone first: sizes of tensors without elements may be anything.
    const bool samples = shape.levels > 0 && shape.levels <= kMaxTeamSamples && shape.points > 0 &&
                         shape.points <= kMaxTeamSamples && shape.levels * shape.points <= kMaxTeamSamples;
    return words && aligned && samples && shape.heads <= INT32_MAX / (8 * kMaxTeamSamples) &&
           shape.batch * shape.queries * shape.heads <= kMaxTeamSites && shape.keys > 0 &&
           shape.keys * shape.heads * (bytes / 16) <= int64_t{UINT32_MAX};
}

// The rest of the arguments, from those that the caller has; returns the number of blocks.
template <typename Source>
int32_t divideItems(TeamArguments<Source>& a, int words, int32_t multiprocessors) {
    using T = typename Source::Element;
    a.bundle = words * 16 < 128 && a.heads % 2 == 0 ? 2 : 1;
    a.itemQueries = 2 / a.bundle;
    a.weightStep = static_cast<uint32_t>(a.heads) * static_cast<uint32_t>(a.count) * sizeof(T);
    a.rowWords = static_cast<uint32_t>(a.heads) * static_cast<uint32_t>(words);
    a.rowBytes = a.rowWords * 16;
    a.items = static_cast<int32_t>(ceilDivide(a.queries, a.itemQueries));
    const int32_t items = a.items * (a.heads / a.bundle);
    const int32_t resident = multiprocessors * kTeamBlocks;
    const int32_t needed = static_cast<int32_t>(ceilDivide(items, kTeamWarps));
    const int32_t blocks = needed < resident ? needed : resident;
    a.share = items / blocks;
    a.shareRest = items % blocks;
    return blocks;
}

}  // namespace trtsmith
