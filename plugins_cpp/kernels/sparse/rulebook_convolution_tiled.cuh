// The convolution along a rulebook on tensor cores (sm_80 and later): an implicit GEMM whose rows are gathered into registers.
//
// A block makes kRows rows x kFilters filters. Its depth are the taps that any of its rows has a pair for, each with all its
// units of channels, one after the other. A step is kStepUnits of them, whose weights the block copies to shared memory two
// steps ahead; each lane reads what it multiplies of its rows straight from device memory, half a step ahead. A warp has 32
// rows and all filters, and skips blocks of 16 rows that have no pair.
#pragma once

#include "kernels/dispatch.cuh"
#include "kernels/sparse/rulebook_convolution_gather.cuh"

namespace trtsmith {
namespace sparse {

template <int kFilters, typename T>
__device__ inline void multiply(const Rows& rows, uint32_t weights, int half, int lane,
                                float (&sums)[kFilters / 16][4][4]) {
    if (rows.has[0] && rows.has[1]) {
        multiplyUnits<0, 4, kFilters, T>(rows.units, weights, half, lane, sums);
    } else if (rows.has[0]) {
        multiplyUnits<0, 2, kFilters, T>(rows.units, weights, half, lane, sums);
    } else if (rows.has[1]) {
        multiplyUnits<2, 2, kFilters, T>(rows.units, weights, half, lane, sums);
    }
}

// Computes what may come of a sum that is not finite again, one by one. A sum may be so because a row without a pair counts as
// zeros, and zero times an infinite weight is NaN, or because what TF32 holds of a float is infinite.
template <typename Tile, int kFilters, typename T>
__device__ __noinline__ void repairOutputs(const ConvolutionArguments<T>& a, int64_t rowBegin, int64_t filterBegin,
                                           int lane, char* shared) {
    for (int i = lane; i < kWarpRows * kFilters; i += 32) {
        const int64_t row = rowBegin + i / kFilters;
        const int64_t filter = filterBegin + i % kFilters;
        if (row < a.rows && filter < a.filters) {
            *reinterpret_cast<T*>(shared + i / kFilters * Tile::kOutputRow + i % kFilters * sizeof(T)) =
                exactOutput(a, row, filter);
        }
    }
    __syncwarp();
}

// Finishes a warp's sums and puts them in order in `shared`; false where a sum of the lane is not finite. A lane has sums of
// filters eight apart and of two neighbouring rows.
template <typename Tile, int kFilters, bool kSigmoid, typename T>
__device__ inline bool finishSums(const ConvolutionArguments<T>& a, int64_t filterBegin, int lane,
                                  const float (&sums)[kFilters / 16][4][4], char* shared) {
    bool finite = true;
#pragma unroll
    for (int block = 0; block < kFilters / 16; ++block) {
        const int filter = block * 16 + lane / 4;
        const float biases[2] = {biasOf(a, filterBegin + filter), biasOf(a, filterBegin + filter + 8)};
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            const int row = i / 4 * 8 + lane % 4 * 2 + i % 2;
            const int lower = i / 2 % 2;
            const float sum = sums[block][i / 4][i % 4];
            finite = finite && fabsf(sum) <= 3.4028234e38F;
            *reinterpret_cast<T*>(shared + row * Tile::kOutputRow + (filter + 8 * lower) * sizeof(T)) =
                fromFloat<T>(kSigmoid ? sigmoid(sum + biases[lower]) : bent(a, sum + biases[lower]));
        }
    }
    return finite;
}

// Finishes a warp's sums and writes them. `shared` is the warp's own.
template <typename Tile, int kFilters, typename T>
__device__ inline void storeSums(const ConvolutionArguments<T>& a, int64_t rowBegin, int64_t filterBegin, int lane,
                                 const float (&sums)[kFilters / 16][4][4], char* shared) {
    const bool finite = a.activation == RulebookActivation::kSigmoid
                            ? finishSums<Tile, kFilters, true>(a, filterBegin, lane, sums, shared)
                            : finishSums<Tile, kFilters, false>(a, filterBegin, lane, sums, shared);
    __syncwarp();
    if (__all_sync(0xffffffffU, finite) == 0) {
        repairOutputs<Tile, kFilters>(a, rowBegin, filterBegin, lane, shared);
    }
    constexpr int kRowUnits = kFilters * static_cast<int>(sizeof(T)) / kUnitBytes;
    if (a.vectorStores) {
#pragma unroll 4
        for (int i = lane; i < kWarpRows * kRowUnits; i += 32) {
            const int row = i / kRowUnits;
            const int unit = i % kRowUnits;
            const int64_t filter = filterBegin + unit * (kUnitBytes / static_cast<int>(sizeof(T)));
            if (rowBegin + row < a.rows && filter < a.filters) {
                *reinterpret_cast<uint4*>(a.output + (rowBegin + row) * a.filters + filter) =
                    *reinterpret_cast<const uint4*>(shared + row * Tile::kOutputRow + unit * kUnitBytes);
            }
        }
        return;
    }
    for (int i = lane; i < kWarpRows * kFilters; i += 32) {
        const int row = i / kFilters;
        const int filter = i % kFilters;
        if (rowBegin + row < a.rows && filterBegin + filter < a.filters) {
            a.output[(rowBegin + row) * a.filters + filterBegin + filter] =
                *reinterpret_cast<const T*>(shared + row * Tile::kOutputRow + filter * sizeof(T));
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
        float sums[kFilters / 16][4][4] = {};
        for (int64_t first = 0; first < a.taps; first += kTapsAtOnce) {
            const Depth depth = beginDepth<Tile>(a, rowBegin, first, shared);
            const int32_t steps = (depth.units + kStepUnits - 1) / kStepUnits;
            if (steps == 0) {
                continue;
            }
            const auto copy = [&](int32_t step) {
                if (step < steps) {
                    loadWeights<kVector, kFilters, Tile::kWarps>(
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
                    multiply<kFilters, T>(rows, stage, half, lane, sums);
                    rows = next;
                }
            }
        }
        __syncthreads();  // nobody reads weights or pairs any more
        storeSums<Tile, kFilters>(a, rowBegin + warp * kWarpRows, filterBegin, lane, sums,
                                  shared + warp * kWarpRows * Tile::kOutputRow);
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
