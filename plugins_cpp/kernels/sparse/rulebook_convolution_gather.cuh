// What the tiled convolution along a rulebook gathers: which taps a tile's rows have pairs for, weights into shared memory, and
// channels of rows into registers.
#pragma once

#include "kernels/sparse/rulebook_convolution_exact.cuh"
#include "kernels/sparse/rulebook_convolution_multiply.cuh"

namespace trtsmith {
namespace sparse {

constexpr int kWarpRows = 32;
constexpr int kTapsAtOnce = 32;  // a bit each
constexpr int kStages = 3;

template <int kFilters, typename T>
struct Tile {
    static constexpr int kWarps = 4;
    static constexpr int kThreads = 32 * kWarps;
    static constexpr int kRows = kWarpRows * kWarps;  // a thread finds the pairs of one row
    static constexpr int kBlocks = kFilters > 64 ? 2 : sizeof(T) < sizeof(float) ? 4 : 3;

    // Shared memory, in bytes.
    static constexpr int kStageBytes = kFilters * kRowBytes;
    static constexpr int kPairs = kStages * kStageBytes;
    static constexpr int kHasPair = kPairs + kTapsAtOnce * kRows * static_cast<int>(sizeof(int32_t));
    static constexpr int kTaps = kHasPair + kTapsAtOnce * kWarps * static_cast<int>(sizeof(uint32_t));
    static constexpr int kInputBytes = kTaps + kTapsAtOnce * static_cast<int>(sizeof(int32_t));
    // In its place at last the output: 16 bytes more a row, so that rows begin in different banks.
    static constexpr int kOutputRow = kFilters * static_cast<int>(sizeof(T)) + kUnitBytes;
    static constexpr int kBytes = kInputBytes > kRows* kOutputRow ? kInputBytes : kRows * kOutputRow;
};

__device__ inline void commitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int kPending>
__device__ inline void waitCopies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Elements of `row` from `channel` on, or zeros.
template <int kElements, typename T>
__device__ inline void loadElements(const T* row, int32_t channel, int32_t channels, bool valid, void* target) {
    T elements[kElements];
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
        elements[i] = valid && channel + i < channels ? row[channel + i] : fromFloat<T>(0.0F);
    }
    memcpy(target, elements, sizeof(elements));
}

// The part of a tile's depth that is under way: kTapsAtOnce taps from `first` on, of which those in tapOfEach have pairs.
struct Depth {
    int64_t first;
    int32_t units;
    const int32_t* pairs;      // [kTapsAtOnce, rows of the tile] rows of the features, or -1
    const int32_t* tapOfEach;  // of `first`'s taps
};

// A unit of the depth: its tap, and where its channels begin.
struct Place {
    bool there;
    int32_t tap;
    int32_t channel;
};

template <typename T>
__device__ inline Place placeOf(const ConvolutionArguments<T>& a, const Depth& depth, int32_t number) {
    constexpr int kElements = kUnitBytes / static_cast<int>(sizeof(T));
    const bool there = number < depth.units;
    const int32_t index = there ? a.perTap.quotient(number) : 0;
    return {there, depth.tapOfEach[index], there ? (number - index * a.units) * kElements : 0};
}

// Finds the pairs of the block's rows; begins and ends with a barrier.
template <typename Tile, typename T>
__device__ inline Depth beginDepth(const ConvolutionArguments<T>& a, int64_t rowBegin, int64_t first, char* shared) {
    constexpr int kInFlight = 8;
    int32_t* const pairs = reinterpret_cast<int32_t*>(shared + Tile::kPairs);
    uint32_t* const hasPair = reinterpret_cast<uint32_t*>(shared + Tile::kHasPair);
    int32_t* const tapOfEach = reinterpret_cast<int32_t*>(shared + Tile::kTaps);
    const int thread = static_cast<int>(threadIdx.x);
    const int lane = thread % 32;
    const int warp = thread / 32;
    const int64_t left = a.taps - first;
    const int count = left < kTapsAtOnce ? static_cast<int>(left) : kTapsAtOnce;
    const int64_t row = rowBegin + thread;
    const int32_t* source = a.pairs + first * a.rows + row;
    __syncthreads();
    for (int begin = 0; begin < count; begin += kInFlight) {
        int32_t inputs[kInFlight];
#pragma unroll
        for (int i = 0; i < kInFlight; ++i, source += a.rows) {
            inputs[i] = row < a.rows && begin + i < count ? __ldg(source) : -1;
        }
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) {
            const bool there = inputs[i] >= 0 && inputs[i] < a.inputs;
            pairs[(begin + i) * Tile::kRows + thread] = there ? inputs[i] : -1;
            const uint32_t rows = __ballot_sync(0xffffffffU, there);
            if (lane == 0) {
                hasPair[(begin + i) * Tile::kWarps + warp] = rows;
            }
        }
    }
    __syncthreads();
    uint32_t any = 0;
    if (lane < count) {
#pragma unroll
        for (int w = 0; w < Tile::kWarps; ++w) {
            any |= hasPair[lane * Tile::kWarps + w];
        }
    }
    const uint32_t used = __ballot_sync(0xffffffffU, any != 0);
    if (warp == 0 && any != 0) {
        tapOfEach[__popc(used & ((1U << lane) - 1U))] = lane;
    }
    __syncthreads();
    return {first, __popc(used) * a.units, pairs, tapOfEach};
}

// Copies a step's weights to shared memory: a warp has four filters at a time, each lane a unit of one.
template <bool kVector, int kFilters, int kWarps, typename T>
__device__ inline void loadWeights(const ConvolutionArguments<T>& a, const Depth& depth, int32_t step,
                                   int64_t filterBegin, uint32_t target) {
    const int unit = static_cast<int>(threadIdx.x) % kStepUnits;
    const int first = static_cast<int>(threadIdx.x) / kStepUnits;
    constexpr int kAtOnce = 32 * kWarps / kStepUnits;
    static_assert(kFilters % kAtOnce == 0, "no check of the filter in the loop");
    const Place place = placeOf(a, depth, step * kStepUnits + unit);
    const int64_t row = a.taps * a.channels;  // of a filter's weights
    const T* source = a.weights + (filterBegin + first) * row + (depth.first + place.tap) * a.channels;
#pragma unroll
    for (int i = 0; i < kFilters / kAtOnce; ++i, source += kAtOnce * row) {
        const int filter = first + i * kAtOnce;
        const bool valid = place.there && filterBegin + filter < a.filters;
        const uint32_t address = target + unitOffset(filter, unit);
        if constexpr (kVector) {
            copyAsync(address, valid ? source + place.channel : a.weights, valid);
        } else {
            Unit loaded;
            loadElements<kUnitBytes / static_cast<int>(sizeof(T))>(source, place.channel, a.channels, valid, &loaded);
            storeUnit(address, loaded);
        }
    }
}

// A lane's units of half a step, of four rows eight apart; which of the warp's two blocks of 16 rows have any.
struct Rows {
    Unit units[4];
    bool has[2];
};

// kVector: rows of the features are whole units, aligned to them.
template <bool kVector, int kRows, typename T>
__device__ inline Rows loadRows(const ConvolutionArguments<T>& a, const Depth& depth, int32_t half, int firstRow,
                                int lane) {
    const Place place = placeOf(a, depth, half * kHalfUnits + lane % kHalfUnits);
    const int32_t* const pairs = depth.pairs + place.tap * kRows + firstRow;
    const T* const first = a.features + place.channel;
    Rows rows;
    bool valid[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int32_t input = pairs[8 * i];
        valid[i] = place.there && input >= 0;
        const T* const source = first + int64_t{input} * a.channels;
        if constexpr (kVector) {
            rows.units[i].vector = uint4{0, 0, 0, 0};
            if (valid[i]) {
                rows.units[i].vector = __ldg(reinterpret_cast<const uint4*>(source));
            }
        } else {
            loadElements<kUnitBytes / static_cast<int>(sizeof(T))>(source - place.channel, place.channel, a.channels,
                                                                   valid[i], &rows.units[i]);
        }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        rows.has[i] = __any_sync(0xffffffffU, valid[2 * i] || valid[2 * i + 1]) != 0;
    }
    return rows;
}

}  // namespace sparse
}  // namespace trtsmith
