// The convolution along a rulebook on tensor cores (sm_80 and later): an implicit GEMM that gathers rows into shared memory.
//
// A block makes kTileRows rows x kFilters filters. Its depth are the taps that any of its rows has a pair for, each with all
// its 16-byte units of channels, one after the other; a step is kStepUnits of them, gathered while the step before is
// multiplied. A warp has 32 rows and all filters, and skips blocks of 16 rows that have no pair.
#pragma once

#include "kernels/dispatch.cuh"
#include "kernels/sparse/rulebook_convolution_exact.cuh"
#include "kernels/sparse/rulebook_convolution_multiply.cuh"

namespace trtsmith {
namespace sparse {

constexpr int kTileThreads = 128;
constexpr int kTileRows = kTileThreads;  // a thread finds the pairs of one row
constexpr int kTileWarps = kTileThreads / 32;
constexpr int kTapsAtOnce = 32;  // a bit each
constexpr int kStages = 2;

// Shared memory, in bytes.
template <int kFilters>
struct TilePlaces {
    static constexpr int kInputs = 0;
    static constexpr int kWeights = kInputs + kStages * kTileRows * kRowBytes;
    static constexpr int kPairs = kWeights + kStages * kFilters * kRowBytes;
    static constexpr int kHasPair = kPairs + kTapsAtOnce * kTileRows * static_cast<int>(sizeof(int32_t));
    static constexpr int kTaps = kHasPair + kTapsAtOnce * kTileWarps * static_cast<int>(sizeof(uint32_t));
    static constexpr int kBytes = kTaps + kTapsAtOnce * static_cast<int>(sizeof(int32_t));
};

__device__ inline void commitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int kPending>
__device__ inline void waitCopies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// One unit of channels of a row, or zeros. kVector: rows are whole units, aligned to them.
template <bool kVector, typename T>
__device__ inline void copyUnit(uint32_t target, const T* row, int32_t channel, int64_t channels, bool valid) {
    constexpr int kElements = kUnitBytes / static_cast<int>(sizeof(T));
    if constexpr (kVector) {
        copyAsync(target, row + channel, valid);
    } else {
        T elements[kElements];
#pragma unroll
        for (int i = 0; i < kElements; ++i) {
            elements[i] = valid && channel + i < channels ? row[channel + i] : fromFloat<T>(0.0F);
        }
        uint4 words;
        memcpy(static_cast<void*>(&words), elements, sizeof(words));
        asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(target), "r"(words.x), "r"(words.y), "r"(words.z),
                     "r"(words.w)
                     : "memory");
    }
}

// The part of a tile's depth that is under way: kTapsAtOnce taps from `first` on, of which those of `taps` have pairs.
struct Depth {
    int64_t first;
    int32_t taps;
    int32_t units;
    const int32_t* pairs;      // [kTapsAtOnce, kTileRows] rows of the features, or -1
    const uint32_t* hasPair;   // [kTapsAtOnce, kTileWarps] a bit for each row
    const int32_t* tapOfEach;  // [taps]
};

// Finds the pairs of the block's rows; begins and ends with a barrier.
template <typename T>
__device__ inline Depth beginDepth(const ConvolutionArguments<T>& a, int64_t rowBegin, int64_t first, int32_t* pairs,
                                   uint32_t* hasPair, int32_t* tapOfEach) {
    const int thread = static_cast<int>(threadIdx.x);
    const int lane = thread % 32;
    const int warp = thread / 32;
    const int64_t left = a.taps - first;
    const int count = left < kTapsAtOnce ? static_cast<int>(left) : kTapsAtOnce;
    const int64_t row = rowBegin + thread;
    const int32_t* source = a.pairs + first * a.rows + row;
    __syncthreads();
#pragma unroll 4
    for (int tap = 0; tap < count; ++tap, source += a.rows) {
        const int32_t input = row < a.rows ? __ldg(source) : -1;
        const bool there = input >= 0 && input < a.inputs;
        pairs[tap * kTileRows + thread] = there ? input : -1;
        const uint32_t rows = __ballot_sync(0xffffffffU, there);
        if (lane == 0) {
            hasPair[tap * kTileWarps + warp] = rows;
        }
    }
    __syncthreads();
    uint32_t any = 0;
    if (lane < count) {
#pragma unroll
        for (int w = 0; w < kTileWarps; ++w) {
            any |= hasPair[lane * kTileWarps + w];
        }
    }
    const uint32_t used = __ballot_sync(0xffffffffU, any != 0);
    if (warp == 0 && any != 0) {
        tapOfEach[__popc(used & ((1U << lane) - 1U))] = lane;
    }
    __syncthreads();
    const int32_t taps = __popc(used);
    return {first, taps, taps * a.units, pairs, hasPair, tapOfEach};
}

// Gathers a step: eight neighbouring threads copy one row.
template <bool kVector, int kFilters, typename T>
__device__ inline void loadStep(const ConvolutionArguments<T>& a, const Depth& depth, int32_t step, int64_t filterBegin,
                                uint32_t inputs, uint32_t weights) {
    constexpr int kElements = kUnitBytes / static_cast<int>(sizeof(T));
    constexpr int kRowsAtOnce = kTileThreads / kStepUnits;
    const int unit = static_cast<int>(threadIdx.x) % kStepUnits;
    const int firstRow = static_cast<int>(threadIdx.x) / kStepUnits;
    const int32_t number = step * kStepUnits + unit;
    const bool there = number < depth.units;
    const int32_t index = there ? a.perTap.quotient(number) : 0;
    const int32_t tap = depth.tapOfEach[index];
    const int32_t channel = there ? (number - index * a.units) * kElements : 0;
#pragma unroll
    for (int i = 0; i < kTileRows / kRowsAtOnce; ++i) {
        const int row = firstRow + i * kRowsAtOnce;
        const int32_t input = depth.pairs[tap * kTileRows + row];
        const bool valid = there && input >= 0;
        const int64_t at = valid ? input * a.channels : 0;
        copyUnit<kVector>(unitAddress(inputs, row, unit), a.features + at, channel, a.channels, valid);
    }
#pragma unroll
    for (int i = 0; i < kFilters / kRowsAtOnce; ++i) {
        const int row = firstRow + i * kRowsAtOnce;
        const bool valid = there && filterBegin + row < a.filters;
        const int64_t at = valid ? ((filterBegin + row) * a.taps + depth.first + tap) * a.channels : 0;
        copyUnit<kVector>(unitAddress(weights, row, unit), a.weights + at, channel, a.channels, valid);
    }
}

// Bits of the warp's rows that have a pair for a unit of the depth.
template <typename T>
__device__ inline uint32_t rowsOf(const ConvolutionArguments<T>& a, const Depth& depth, int32_t number, int warp) {
    return number < depth.units ? depth.hasPair[depth.tapOfEach[a.perTap.quotient(number)] * kTileWarps + warp] : 0;
}

template <int kFilters, typename T>
__device__ inline void multiplyStep(const ConvolutionArguments<T>& a, const Depth& depth, int32_t step, int warp,
                                    int lane, uint32_t inputs, uint32_t weights, float (&sums)[2][kFilters / 8][4]) {
    uint32_t rows = a.wholeSteps ? rowsOf(a, depth, step * kStepUnits, warp) : 0;
#pragma unroll
    for (int slice = 0; slice < kStepUnits / 2; ++slice) {
        if (!a.wholeSteps) {
            const int32_t number = step * kStepUnits + 2 * slice;
            rows = rowsOf(a, depth, number, warp) | rowsOf(a, depth, number + 1, warp);
        }
        const bool lower = (rows & 0xffffU) != 0;
        const bool upper = (rows >> 16) != 0;
        if (lower && upper) {
            multiplySlice<0, 2, kFilters, T>(slice, inputs, weights, lane, sums);
        } else if (lower) {
            multiplySlice<0, 1, kFilters, T>(slice, inputs, weights, lane, sums);
        } else if (upper) {
            multiplySlice<1, 1, kFilters, T>(slice, inputs, weights, lane, sums);
        }
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
__global__ void __launch_bounds__(kTileThreads, kFilters == 128 ? 2 : 3)
    tiledKernel(const __grid_constant__ ConvolutionArguments<T> a) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    using Places = TilePlaces<kFilters>;
    extern __shared__ uint4 dynamicShared[];
    char* const shared = reinterpret_cast<char*>(dynamicShared);
    int32_t* const pairs = reinterpret_cast<int32_t*>(shared + Places::kPairs);
    uint32_t* const hasPair = reinterpret_cast<uint32_t*>(shared + Places::kHasPair);
    int32_t* const tapOfEach = reinterpret_cast<int32_t*>(shared + Places::kTaps);
    const uint32_t inputs = sharedAddress(shared) + Places::kInputs;
    const uint32_t weights = sharedAddress(shared) + Places::kWeights;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    for (int64_t tile = blockIdx.x; tile < a.tiles; tile += gridDim.x) {
        const int64_t rowBegin = tile / a.filterTiles * kTileRows;
        const int64_t filterBegin = tile % a.filterTiles * kFilters;
        float sums[2][kFilters / 8][4] = {};
        for (int64_t first = 0; first < a.taps; first += kTapsAtOnce) {
            const Depth depth = beginDepth(a, rowBegin, first, pairs, hasPair, tapOfEach);
            const int32_t steps = (depth.units + kStepUnits - 1) / kStepUnits;
            const auto load = [&](int32_t step) {
                if (step < steps) {
                    const auto stage = static_cast<uint32_t>(step % kStages);
                    loadStep<kVector, kFilters>(a, depth, step, filterBegin, inputs + stage * kTileRows * kRowBytes,
                                                weights + stage * kFilters * kRowBytes);
                }
                commitCopies();
            };
#pragma unroll
            for (int32_t step = 0; step < kStages - 1; ++step) {
                load(step);
            }
            for (int32_t step = 0; step < steps; ++step) {
                waitCopies<kStages - 2>();
                __syncthreads();  // all copies of this step are there, and all products of the one before are done
                load(step + kStages - 1);
                const auto stage = static_cast<uint32_t>(step % kStages);
                multiplyStep<kFilters>(a, depth, step, warp, lane,
                                       inputs + stage * kTileRows * kRowBytes + warp * 32 * kRowBytes,
                                       weights + stage * kFilters * kRowBytes, sums);
            }
        }
        storeSums<kFilters>(a, rowBegin + warp * 32, filterBegin, lane, sums);
    }
#endif
}

template <bool kVector, int kFilters, typename T>
cudaError_t launchTiled(ConvolutionArguments<T> a, cudaStream_t stream) {
    a.filterTiles = ceilDivide(a.filters, kFilters);
    a.tiles = ceilDivide(a.rows, kTileRows) * a.filterTiles;
    const auto kernel = tiledKernel<kVector, kFilters, T>;
    constexpr int kBytes = TilePlaces<kFilters>::kBytes;
    const cudaError_t status = allowSharedBytes(kernel, kBytes);
    return status == cudaSuccess ? launch(kernel, gridBlocks(a.tiles), kTileThreads, kBytes, stream, a) : status;
}

}  // namespace sparse
}  // namespace trtsmith
