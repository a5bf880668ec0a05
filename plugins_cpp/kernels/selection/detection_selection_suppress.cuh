// Goes through candidates of one image in their order, a tile at a time: those that overlap a kept one drop out, the others
// are compared with each other, and one warp takes them in turn.
#pragma once

#include <cstdint>

#include "kernels/selection/detection_selection_bound.cuh"
#include "kernels/selection/detection_selection_state.cuh"

namespace trtsmith {
namespace detection_selection_detail {

constexpr int kTileBoxes = 256;
constexpr int kWords = kTileBoxes / 32;
constexpr int kMaskStride = kTileBoxes + 1;  // words of a row are in different banks
constexpr int kParts = kThreads / kTileBoxes;
constexpr int kScratch = kWords * kMaskStride > kDigits ? kWords * kMaskStride : kDigits;

struct Workroom {
    Key keys[kChunk];
    Box boxes[kTileBoxes];
    int32_t labels[kTileBoxes];
    uint32_t scratch[kScratch];  // a search's histogram, or for every candidate of a tile those later that it overlaps
    uint32_t dead[kWords];       // candidates of a tile that drop out
    uint32_t taken[kWords];      // those that are kept
    Search search;
    int64_t kept;
    int count;
};

// Sorts keys, the smallest first: a bitonic network over the next power of two. Steps within the 128 keys of a warp are taken
// in registers, of which a thread has those that are 32 apart.
__device__ inline void sortKeys(Key* keys, int count) {
    constexpr int kLaneKeys = 4;
    constexpr int kWarpKeys = 32 * kLaneKeys;
    static_assert(kThreads * kLaneKeys == kChunk, "registers hold all keys");
    const int thread = static_cast<int>(threadIdx.x);
    const int first = thread / 32 * kWarpKeys + thread % 32;
    int size = kWarpKeys;
    while (size < count) {
        size *= 2;
    }
    const bool active = first < size;  // all of a warp
    Key own[kLaneKeys];
    __syncthreads();
    for (int i = 0; i < kLaneKeys; ++i) {
        own[i] = first + i * 32 < count ? keys[first + i * 32] : kNone;
    }
    for (int width = 2; width <= size; width *= 2) {
        if (width > kWarpKeys) {
            for (int i = 0; active && i < kLaneKeys; ++i) {
                keys[first + i * 32] = own[i];
            }
            for (int step = width / 2; step >= kWarpKeys; step /= 2) {
                __syncthreads();
                for (int i = thread; i < size / 2; i += kThreads) {
                    const int low = 2 * i - (i & (step - 1));
                    const Key a = keys[low];
                    const Key b = keys[low + step];
                    if ((a > b) == ((low & width) == 0)) {
                        keys[low] = b;
                        keys[low + step] = a;
                    }
                }
            }
            __syncthreads();
            for (int i = 0; active && i < kLaneKeys; ++i) {
                own[i] = keys[first + i * 32];
            }
        }
#pragma unroll
        for (int step = kWarpKeys / 2; step > 0; step /= 2) {
            if (active && step < width) {
                const Key given[] = {own[0], own[1], own[2], own[3]};
#pragma unroll
                for (int i = 0; i < kLaneKeys; ++i) {
                    const int at = first + i * 32;
                    const Key other =
                        step >= 32 ? given[i ^ (step / 32)] : __shfl_xor_sync(0xffffffffU, given[i], step);
                    const bool smaller = ((at & step) == 0) == ((at & width) == 0);
                    own[i] = (given[i] < other) == smaller ? given[i] : other;
                }
            }
        }
    }
    for (int i = 0; active && i < kLaneKeys; ++i) {
        keys[first + i * 32] = own[i];
    }
    __syncthreads();
}

// Which candidates of the tile overlap a box that is kept: a part of the threads has a part of these boxes.
__device__ inline void compareWithKept(const Plan& plan, Workroom& room, const Kept* keptBoxes, int64_t kept,
                                       int left) {
    const int candidate = static_cast<int>(threadIdx.x) % kTileBoxes;
    if (candidate >= left) {
        return;
    }
    const Box own = room.boxes[candidate];
    const int32_t label = room.labels[candidate];
    bool out = false;
    for (int64_t i = static_cast<int>(threadIdx.x) / kTileBoxes; i < kept && !out; i += kParts) {
        const Kept other = keptBoxes[i];
        out = (plan.params.classAgnostic || other.label == label) && overlapOf(plan, other.box, own);
    }
    if (out) {
        atomicOr(room.dead + candidate / 32, 1U << (candidate % 32));
    }
}

// For every candidate of the tile the later ones that it overlaps, in words of 32.
__device__ inline void compareInTile(const Plan& plan, Workroom& room, int left) {
    for (int work = static_cast<int>(threadIdx.x); work < kWords * kTileBoxes; work += kThreads) {
        const int row = work % kTileBoxes;
        const int first = work / kTileBoxes * 32;
        uint32_t found = 0;
        if (row < left && first + 31 > row) {
            const Box own = room.boxes[row];
            const int32_t label = room.labels[row];
            const int end = left - first < 32 ? left - first : 32;
            for (int i = row >= first ? row - first + 1 : 0; i < end; ++i) {
                const bool rivals = plan.params.classAgnostic || room.labels[first + i] == label;
                found |= rivals && overlapOf(plan, own, room.boxes[first + i]) ? 1U << i : 0U;
            }
        }
        room.scratch[first / 32 * kMaskStride + row] = found;
    }
}

// The first warp takes the candidates that are left in turn; its first lanes have a word each.
__device__ inline void takeInTurn(Workroom& room, int64_t kept, int64_t most) {
    const int lane = static_cast<int>(threadIdx.x);
    uint32_t alive = lane < kWords ? ~room.dead[lane] : 0;
    uint32_t taken = 0;
    for (int word = 0; word < kWords; ++word) {
        uint32_t current = __shfl_sync(kAllLanes, alive, word);
        while (current != 0 && kept < most) {
            const int bit = __ffs(static_cast<int>(current)) - 1;
            if (lane == word) {
                taken |= 1U << bit;
            }
            if (lane < kWords) {
                alive &= ~room.scratch[lane * kMaskStride + word * 32 + bit];
            }
            ++kept;
            current = __shfl_sync(kAllLanes, alive, word) & ~((2U << bit) - 1U);
        }
    }
    if (lane < kWords) {
        room.taken[lane] = taken;
    }
    if (lane == 0) {
        room.kept = kept;
    }
}

__device__ inline float clipped(float value) { return value < 0.0F ? 0.0F : value > 1.0F ? 1.0F : value; }

template <typename T>
__device__ void writeRow(const Plan& plan, int64_t image, int64_t row, const Place& place) {
    const int64_t to = image * plan.shape.most + row;
    const int64_t score = image * plan.scores + static_cast<int64_t>(place.box) * plan.shape.classes + place.label;
    const Given given = givenOf<T>(plan, image, place);
    float4 box = given.corners;
    if (plan.params.clip) {
        box = {clipped(box.x), clipped(box.y), clipped(box.z), clipped(box.w)};
    }
    T* const corners = static_cast<T*>(plan.params.outBoxes) + to * columnsOf(plan);
    corners[0] = fromFloat<T>(box.x);
    corners[1] = fromFloat<T>(box.y);
    corners[2] = fromFloat<T>(box.z);
    corners[3] = fromFloat<T>(box.w);
    if (columnsOf(plan) == 5) {
        corners[4] = fromFloat<T>(given.angle);
    }
    static_cast<T*>(plan.params.outScores)[to] = static_cast<const T*>(plan.params.scores)[score];
    plan.params.outClasses[to] = static_cast<int32_t>(place.label);
    plan.params.outIndices[to] = static_cast<int32_t>(place.box);
}

// One tile of an image: candidates from `begin` on. Gives back how many boxes are kept now.
template <typename T>
__device__ int64_t suppressTile(const Plan& plan, Workroom& room, int64_t image, int begin, int count, int64_t kept) {
    const int thread = static_cast<int>(threadIdx.x);
    Kept* const keptBoxes = plan.kept + image * plan.room;
    const int left = count - begin < kTileBoxes ? count - begin : kTileBoxes;
    Place place{};
    if (thread < left) {
        place = placeOf(plan, room.keys[begin + thread]);
        room.boxes[thread] = boxOf(plan, givenOf<T>(plan, image, place));
        room.labels[thread] = static_cast<int32_t>(place.label);
    }
    if (thread < kWords) {
        const int there = left - thread * 32;
        room.dead[thread] = there >= 32 ? 0U : there <= 0 ? ~0U : ~((1U << there) - 1U);
    }
    __syncthreads();
    compareWithKept(plan, room, keptBoxes, kept, left);
    compareInTile(plan, room, left);
    __syncthreads();
    if (thread < 32) {
        takeInTurn(room, kept, plan.shape.most);
    }
    __syncthreads();
    const int word = thread / 32;
    if (thread < left && (room.taken[word] >> (thread % 32) & 1U) != 0) {
        int64_t row = kept + __popc(room.taken[word] & ((1U << (thread % 32)) - 1U));
        for (int w = 0; w < word; ++w) {
            row += __popc(room.taken[w]);
        }
        keptBoxes[row] = {room.boxes[thread], room.labels[thread]};
        writeRow<T>(plan, image, row, place);
    }
    const int64_t now = room.kept;
    __syncthreads();
    return now;
}

}  // namespace detection_selection_detail
}  // namespace trtsmith
