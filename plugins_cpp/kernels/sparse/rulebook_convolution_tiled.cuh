// The convolution along a rulebook on tensor cores (sm_80 and later): an implicit GEMM whose rows are gathered into registers.
//
// A block makes kRows rows x kFilters filters. Its depth are the taps that any of its rows has a pair for, each with all its
// units of channels, one after the other. A step is kStepUnits of them, whose weights the block copies to shared memory two
// steps ahead; each lane reads what it multiplies of its rows straight from device memory, half a step ahead. A warp has 32
// rows and all filters, and skips blocks of 16 rows that have no pair.
#pragma once

#include "kernels/dispatch.cuh"
#include "kernels/sparse/rulebook_convolution_exact.cuh"
#include "kernels/sparse/rulebook_convolution_multiply.cuh"

namespace trtsmith {
namespace sparse {

constexpr int kWarpRows = 32;
constexpr int kTapsAtOnce = 32;  // a bit each
constexpr int kStages = 3;

// Twice the rows halve how often weights are read, but a thread then has 128 registers only.
template <int kFilters, typename T>
struct Tile {
    static constexpr bool kWide = kFilters <= 64 && sizeof(T) < sizeof(float);
    static constexpr int kWarps = kWide ? 8 : 4;
    static constexpr int kThreads = 32 * kWarps;
    static constexpr int kRows = kWarpRows * kWarps;  // a thread finds the pairs of one row
    static constexpr int kBlocks = kFilters > 64 || kWide ? 2 : 3;

    // Shared memory, in bytes.
    static constexpr int kStageBytes = kFilters * kRowBytes;
    static constexpr int kPairs = kStages * kStageBytes;
    static constexpr int kHasPair = kPairs + kTapsAtOnce * kRows * static_cast<int>(sizeof(int32_t));
    static constexpr int kTaps = kHasPair + kTapsAtOnce * kWarps * static_cast<int>(sizeof(uint32_t));
    static constexpr int kBytes = kTaps + kTapsAtOnce * static_cast<int>(sizeof(int32_t));
};

__device__ inline void commitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int kPending>
__device__ inline void waitCopies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// One unit of channels of a row, or zeros. kVector: rows are whole units, aligned to them.
template <bool kVector, typename T>
__device__ inline Unit loadUnit(const T* row, int32_t channel, int64_t channels, bool valid) {
    constexpr int kElements = kUnitBytes / static_cast<int>(sizeof(T));
    Unit unit{};
    if constexpr (kVector) {
        if (valid) {
            unit.vector = __ldg(reinterpret_cast<const uint4*>(row + channel));
        }
    } else {
        T elements[kElements];
#pragma unroll
        for (int i = 0; i < kElements; ++i) {
            elements[i] = valid && channel + i < channels ? row[channel + i] : fromFloat<T>(0.0F);
        }
        memcpy(static_cast<void*>(&unit), elements, sizeof(unit));
    }
    return unit;
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

// Copies a step's weights to shared memory: eight neighbouring threads copy those of one filter.
template <bool kVector, int kFilters, int kThreads, typename T>
__device__ inline void loadWeights(const ConvolutionArguments<T>& a, const Depth& depth, int32_t step,
                                   int64_t filterBegin, uint32_t target) {
    constexpr int kAtOnce = kThreads / kStepUnits;
    const int unit = static_cast<int>(threadIdx.x) % kStepUnits;
    const int first = static_cast<int>(threadIdx.x) / kStepUnits;
    const Place place = placeOf(a, depth, step * kStepUnits + unit);
    const int64_t row = a.taps * a.channels;  // of a filter's weights
    const T* source = a.weights + (filterBegin + first) * row + (depth.first + place.tap) * a.channels;
#pragma unroll
    for (int i = 0; i < (kFilters + kAtOnce - 1) / kAtOnce; ++i, source += kAtOnce * row) {
        const int filter = first + i * kAtOnce;
        if (kFilters % kAtOnce != 0 && filter >= kFilters) {
            break;
        }
        const bool valid = place.there && filterBegin + filter < a.filters;
        const T* const given = valid ? source : a.weights;
        const uint32_t address = target + unitOffset(filter, unit);
        if constexpr (kVector) {
            copyAsync(address, given + place.channel, valid);
        } else {
            storeShared(address, loadUnit<false>(given, place.channel, a.channels, valid));
        }
    }
}

// A lane's units of half a step, of four rows eight apart; which of the warp's two blocks of 16 rows have any.
struct Rows {
    Unit units[4];
    bool has[2];
};

template <bool kVector, int kRows, typename T>
__device__ inline Rows loadRows(const ConvolutionArguments<T>& a, const Depth& depth, int32_t half, int firstRow,
                                int lane) {
    const Place place = placeOf(a, depth, half * kHalfUnits + lane % kHalfUnits);
    const int32_t* const pairs = depth.pairs + place.tap * kRows + firstRow;
    Rows rows;
    bool valid[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int64_t input = pairs[8 * i];
        valid[i] = place.there && input >= 0;
        rows.units[i] =
            loadUnit<kVector>(a.features + (valid[i] ? input * a.channels : 0), place.channel, a.channels, valid[i]);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        rows.has[i] = __any_sync(0xffffffffU, valid[2 * i] || valid[2 * i + 1]) != 0;
    }
    return rows;
}

template <int kFilters, typename T>
__device__ inline void multiply(const Rows& rows, uint32_t weights, float (&sums)[2][kFilters / 8][4]) {
    if (rows.has[0] && rows.has[1]) {
        multiplyUnits<0, 2, kFilters, T>(rows.units, weights, sums);
    } else if (rows.has[0]) {
        multiplyUnits<0, 1, kFilters, T>(rows.units, weights, sums);
    } else if (rows.has[1]) {
        multiplyUnits<1, 1, kFilters, T>(rows.units, weights, sums);
    }
}

// Lane's sums are of two neighbouring filters and of rows eight apart.
template <int kFilters, typename T>
__device__ inline void storeSums(const ConvolutionArguments<T>& a, int64_t rowBegin, int64_t filterBegin, int lane,
                                 const float (&sums)[2][kFilters / 8][4]) {
#pragma unroll
    for (int part = 0; part < 4; ++part) {
        const int64_t row = rowBegin + part * 8 + lane / 4;
        if (row >= a.rows) {
            continue;
        }
#pragma unroll
        for (int n = 0; n < kFilters / 8; ++n) {
            const int64_t filter = filterBegin + n * 8 + lane % 4 * 2;
            float values[2] = {sums[part / 2][n][part % 2 * 2], sums[part / 2][n][part % 2 * 2 + 1]};
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                if (filter + i < a.filters) {
                    if (!(fabsf(values[i]) <= 3.4028234e38F)) {
                        values[i] = exactSum(a, row, filter + i);
                    }
                    values[i] = finish(a, values[i], filter + i);
                }
            }
            T* const target = a.output + row * a.filters + filter;
            if (a.pairStores && filter < a.filters) {
                storeFloats<2>(target, values);
                continue;
            }
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                if (filter + i < a.filters) {
                    target[i] = fromFloat<T>(values[i]);
                }
            }
        }
    }
}

template <bool kVector, int kFilters, typename T>
__global__ void __launch_bounds__(Tile<kFilters, T>::kThreads, Tile<kFilters, T>::kBlocks)
    tiledKernel(const __grid_constant__ ConvolutionArguments<T> a) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    using Tile = Tile<kFilters, T>;
    extern __shared__ uint4 dynamicShared[];
    char* const shared = reinterpret_cast<char*>(dynamicShared);
    const uint32_t weights = sharedAddress(shared);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int firstRow = warp * kWarpRows + lane / 4;
    for (int64_t tile = blockIdx.x; tile < a.tiles; tile += gridDim.x) {
        const int64_t rowBegin = tile / a.filterTiles * Tile::kRows;
        const int64_t filterBegin = tile % a.filterTiles * kFilters;
        float sums[2][kFilters / 8][4] = {};
        for (int64_t first = 0; first < a.taps; first += kTapsAtOnce) {
            const Depth depth = beginDepth<Tile>(a, rowBegin, first, shared);
            const int32_t steps = (depth.units + kStepUnits - 1) / kStepUnits;
            if (steps == 0) {
                continue;
            }
            const auto copy = [&](int32_t step) {
                if (step < steps) {
                    loadWeights<kVector, kFilters, Tile::kThreads>(
                        a, depth, step, filterBegin,
                        weights + static_cast<uint32_t>(step % kStages * Tile::kStageBytes));
                }
                commitCopies();
            };
#pragma unroll
            for (int32_t step = 0; step < kStages - 1; ++step) {
                copy(step);
            }
            Rows rows = loadRows<kVector, Tile::kRows>(a, depth, 0, firstRow, lane);
            for (int32_t step = 0; step < steps; ++step) {
                waitCopies<kStages - 2>();
                __syncthreads();  // all weights of this step are there, and all products of the one before are done
                copy(step + kStages - 1);
                const uint32_t stage = weights + static_cast<uint32_t>(step % kStages * Tile::kStageBytes);
#pragma unroll
                for (int32_t half = 0; half < 2; ++half) {
                    const Rows next = loadRows<kVector, Tile::kRows>(a, depth, 2 * step + half + 1, firstRow, lane);
                    multiply<kFilters, T>(rows, stage + unitOffset(lane / 4, half * kHalfUnits + lane % kHalfUnits),
                                          sums);
                    rows = next;
                }
            }
        }
        storeSums<kFilters>(a, rowBegin + warp * kWarpRows, filterBegin, lane, sums);
    }
#endif
}

template <bool kVector, int kFilters, typename T>
cudaError_t launchTiled(ConvolutionArguments<T> a, cudaStream_t stream) {
    using Tile = Tile<kFilters, T>;
    a.filterTiles = ceilDivide(a.filters, kFilters);
    a.tiles = ceilDivide(a.rows, Tile::kRows) * a.filterTiles;
    const auto kernel = tiledKernel<kVector, kFilters, T>;
    const cudaError_t status = allowSharedBytes(kernel, Tile::kBytes);
    return status == cudaSuccess ? launch(kernel, gridBlocks(a.tiles), Tile::kThreads, Tile::kBytes, stream, a)
                                 : status;
}

}  // namespace sparse
}  // namespace trtsmith
