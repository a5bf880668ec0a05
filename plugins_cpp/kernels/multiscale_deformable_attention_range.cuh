// The items that a block of the team kernel does, and the addresses of their tensors.
#pragma once

#include <cstdint>

#include "multiscale_deformable_attention_layout.cuh"
#include "multiscale_deformable_attention_words.cuh"

namespace trtsmith {

// A block numbers its items from 0. It has an equal range of neighbouring items of each batch, and a range may go over
// several bundles of heads: a segment is what lies in one bundle and batch. Pointers are this lane's, for query 0.
// The same for all lanes of a warp, but for the pointers and queryOf.
template <typename Source, int kWords>
struct TeamRange : Source::Range {
    using T = typename Source::Element;
    static constexpr int kVector = 16 / static_cast<int>(sizeof(T));

    const char* value = nullptr;
    const char* weights = nullptr;  // the lane's first sample
    const char* positions = nullptr;
    char* output = nullptr;
    int segmentEnd = 0;  // the first item behind the segment

    int turn;  // the place of this block in the order of a batch
    int batch = -1;
    int begin = 0;  // what is left of the batch's range, in items of the batch
    int end = 0;
    int shift = 0;  // from an item to its team's query

    int firstResult;  // the channel of its word that the lane writes first

    __device__ TeamRange(int block, const TeamLane<kWords>& lane)
        : turn(block), firstResult(lane.template firstResult<kVector>()) {}

    // Moves on to the segment of `item`; false behind the last. All blocks finish a batch before the next: the values of
    // many batches together do not fit the second-level cache.
    __device__ bool enter(int item, const TeamArguments<Source>& a, const TeamLane<kWords>& lane) {
        while (item >= segmentEnd) {
            if (begin == end) {
                if (++batch == a.batch) {
                    return false;
                }
                begin = turn * a.share + (turn < a.shareRest ? turn : a.shareRest);
                end = begin + a.share + (turn < a.shareRest ? 1 : 0);
                turn += turn >= a.shareRest ? -a.shareRest : static_cast<int>(gridDim.x) - a.shareRest;
                continue;
            }
            const int plane = begin / a.items;
            const int inPlane = begin - plane * a.items;
            const int rest = a.items - inPlane;
            const int items = rest < end - begin ? rest : end - begin;
            begin += items;
            const int head = plane * a.bundle + (a.bundle == 2 ? lane.team : 0);
            shift = (inPlane - segmentEnd) * a.itemQueries + (a.bundle == 2 ? 0 : lane.team);
            segmentEnd += items;
            const int64_t site = static_cast<int64_t>(batch) * a.queries * a.heads + head;
            value = reinterpret_cast<const char*>(a.value) + batch * a.keys * static_cast<int64_t>(a.rowBytes) +
                    (head * kWords + lane.word) * 16;
            const int64_t samples = static_cast<int64_t>(Source::sampleBatch(batch, a)) * a.queries * a.heads + head;
            weights = reinterpret_cast<const char*>(a.weights + samples * a.count + lane.lane);
            positions = reinterpret_cast<const char*>(a.positions + (samples * a.count + lane.lane) * 2);
            this->enterBatch(batch, a);
            output = reinterpret_cast<char*>(a.output + (site * kWords + lane.word) * kVector + firstResult);
        }
        return true;
    }

    // May be one more than there are: then this team has nothing to do.
    __device__ int queryOf(int item, const TeamArguments<Source>& a) const { return item * a.itemQueries + shift; }

    // Sample `first` + lane of a team's query; `reference` is what Source::referenceOf says of it.
    __device__ typename Source::Raw load(int query, int first, bool valid, uint32_t reference,
                                         const TeamArguments<Source>& a) const {
        const int bytes = first * static_cast<int>(sizeof(T));
        return this->complete(
            loadSample<T>(advanced(positions, static_cast<uint32_t>(query), a.weightStep * 2) + bytes * 2,
                          advanced(weights, static_cast<uint32_t>(query), a.weightStep) + bytes, valid),
            query, reference, valid, a);
    }

    // Writes the lane's channels of a query, the first of `sums`.
    __device__ void store(int query, const float (&sums)[kVector], const TeamArguments<Source>& a) const {
        constexpr int kResults = kVector / TeamLane<kWords>::kGroups;
        static_assert(kResults > 0, "more groups than channels in a word");
        if (query < a.queries) {
            float results[kResults];
#pragma unroll
            for (int k = 0; k < kResults; ++k) {
                results[k] = sums[k];
            }
            storeFloats<kResults>(
                reinterpret_cast<T*>(const_cast<char*>(advanced(output, static_cast<uint32_t>(query), a.rowBytes))),
                results);
        }
    }
};

}  // namespace trtsmith
