// The team kernel's slower way, which checks before it reads: for levels that are not plain and values that are not finite.
#pragma once

#include "multiscale_deformable_attention_cell.cuh"
#include "multiscale_deformable_attention_place.cuh"
#include "multiscale_deformable_attention_range.cuh"

namespace trtsmith {

// Computes all items of the block. Every lane that writes has written the same places before, if any has: the order of its
// own stores is enough. No lane reads what another one prepared, so shared memory and barriers are not needed.
template <typename Source, int kWords>
__device__ void computeExactly(const TeamArguments<Source>& a, const TeamLane<kWords>& lane) {
    using T = typename Source::Element;
    constexpr int kVector = 16 / static_cast<int>(sizeof(T));
    TeamRange<Source, kWords> range(static_cast<int>(blockIdx.x), lane);
    for (int item = lane.warp; range.enter(item, a, lane); item += kTeamWarps) {
        const int query = range.queryOf(item, a);
        float sums[kVector];
        clear(sums);
        const T* const first =
            reinterpret_cast<const T*>(advanced(range.weights, static_cast<uint32_t>(query), a.weightStep)) - lane.lane;
        const typename Source::SiteWeights weights(first, query < a.queries ? a.count : 0);
#pragma unroll 1
        for (int sample = lane.group; sample < a.count && query < a.queries; sample += TeamLane<kWords>::kGroups) {
            const uint32_t reference = Source::referenceOf(sample, a);
            const auto raw = range.load(query, sample - lane.lane, true, reference, a);
            const float2 pair = positionOf(raw);
            const LevelBounds level = loadBounds(a.spatialShapes, a.levelStartIndex, sample / a.points, a.wideIndices);
            const SamplePosition position = range.position(pair, raw, query, reference, level, a);
            const BilinearCell cell = cellAt(position, level.height, level.width);
            const int64_t inLevel = static_cast<int64_t>(cell.row) * level.width + cell.column;
#pragma unroll
            for (int corner = 0; corner < 4; ++corner) {
                // Unsigned: with a hostile start it wraps instead of overflowing, and one comparison refuses both ends.
                const uint64_t row = level.start + static_cast<uint64_t>(inLevel) +
                                     (corner >= 2 ? static_cast<uint64_t>(level.width) : 0U) + (corner & 1);
                if ((cell.valid >> corner & 1U) != 0U && row < static_cast<uint64_t>(a.keys)) {
                    addWord<T>(__ldg(reinterpret_cast<const uint4*>(range.value + row * a.rowBytes)),
                               weights.of(raw.weight) * cell.weights[corner], sums);
                }
            }
        }
        __syncwarp();
        lane.exchange(sums);
        range.store(query, sums, a);
    }
}

}  // namespace trtsmith
