// The team kernel's slower way, which checks before it reads: for levels that are not plain and values that are not finite.
#pragma once

#include "multiscale_deformable_attention_cell.cuh"
#include "multiscale_deformable_attention_place.cuh"
#include "multiscale_deformable_attention_range.cuh"

namespace trtsmith {

// Computes all items of the block. Every lane that writes has written the same places before, if any has: the order of its
// own stores is enough. No lane reads what another one prepared, so shared memory and barriers are not needed.
template <typename T, int kWords>
__device__ void computeExactly(const TeamArguments<T>& a, const TeamLane<kWords>& lane) {
    constexpr int kVector = 16 / static_cast<int>(sizeof(T));
    TeamRange<T, kWords> range(static_cast<int>(blockIdx.x), lane);
    for (int item = lane.warp; range.enter(item, a, lane); item += kTeamWarps) {
        const int query = range.queryOf(item, a);
        float sums[kVector];
        clear(sums);
#pragma unroll 1
        for (int sample = lane.group; sample < a.count && query < a.queries; sample += TeamLane<kWords>::kGroups) {
            const RawSample<T> raw = range.load(query, sample - lane.lane, true, a);
            const float2 location = locationOf(raw);
            const LevelBounds level = loadBounds(a.spatialShapes, a.levelStartIndex, sample / a.points, a.wideIndices);
            const BilinearCell cell = locationCell(location.x, location.y, level.height, level.width);
            const int64_t inLevel = static_cast<int64_t>(cell.row) * level.width + cell.column;
#pragma unroll
            for (int corner = 0; corner < 4; ++corner) {
                // Unsigned: with a hostile start it wraps instead of overflowing, and one comparison refuses both ends.
                const uint64_t row = level.start + static_cast<uint64_t>(inLevel) +
                                     (corner >= 2 ? static_cast<uint64_t>(level.width) : 0U) + (corner & 1);
                if ((cell.valid >> corner & 1U) != 0U && row < static_cast<uint64_t>(a.keys)) {
                    addWord<T>(__ldg(reinterpret_cast<const uint4*>(range.value + row * a.rowBytes)),
                               toFloat(raw.weight) * cell.weights[corner], sums);
                }
            }
        }
        __syncwarp();
        lane.exchange(sums);
        range.store(query, sums, a);
    }
}

}  // namespace trtsmith
