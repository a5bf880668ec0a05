// Gauss-Jordan elimination with partial pivoting by a team of threads.
#pragma once

#include <cstdint>

#include "matrix_inverse_team.cuh"

namespace trtsmith {
namespace matrix_inverse_detail {

// Loads a matrix and replaces it by its inverse in place, all threads of the team together. All barriers are the
// block's.
__device__ inline void eliminate(const Arguments& a, int64_t base, const Work& w, const Place& p) {
    __shared__ float bestValues[kWorkspaceThreads / kWarp];
    __shared__ int32_t bestRows[kWorkspaceThreads / kWarp];

    const int32_t size = w.size;
    const int thread = static_cast<int>(threadIdx.x);
    float* inverse = w.inverse;
    for (int32_t i = p.firstRow; i < size; i += p.rowStep) {
        for (int32_t j = p.firstColumn; j < size; j += p.columnStep) {
            inverse[i * w.stride + j] = loadElement(a.input, base + static_cast<int64_t>(i) * size + j, a.type);
        }
    }
    for (int32_t i = p.lane; i < size; i += p.threads) {
        w.origin[i] = i;
    }
    __syncthreads();

    for (int32_t k = 0; k < size; ++k) {
        // The largest of column k from row k down, the first of equals. NaN is larger than nothing; where there is
        // nothing else it becomes the pivot and spreads.
        float best = -1.0F;
        int32_t bestRow = k;
        for (int32_t i = p.lane; i < size; i += p.threads) {
            const float value = inverse[i * w.stride + k];
            w.column[i] = value;
            if (i >= k && fabsf(value) > best) {
                best = fabsf(value);
                bestRow = i;
            }
        }
#pragma unroll
        for (int distance = kWarp / 2; distance > 0; distance /= 2) {
            const float otherBest = __shfl_xor_sync(0xffffffffU, best, distance);
            const int32_t otherRow = __shfl_xor_sync(0xffffffffU, bestRow, distance);
            if (otherBest > best || (otherBest == best && otherRow < bestRow)) {
                best = otherBest;
                bestRow = otherRow;
            }
        }
        if (p.lane % kWarp == 0) {
            bestValues[thread / kWarp] = best;
            bestRows[thread / kWarp] = bestRow;
        }
        __syncthreads();

        const int firstWarp = (thread - p.lane) / kWarp;
        best = bestValues[firstWarp];
        bestRow = bestRows[firstWarp];
        for (int warp = firstWarp + 1; warp < firstWarp + p.threads / kWarp; ++warp) {
            if (bestValues[warp] > best || (bestValues[warp] == best && bestRows[warp] < bestRow)) {
                best = bestValues[warp];
                bestRow = bestRows[warp];
            }
        }
        const float pivot = w.column[bestRow];
        if (p.lane == 0) {
            const int32_t chosen = w.origin[bestRow];
            w.origin[bestRow] = w.origin[k];
            w.origin[k] = chosen;
        }
        for (int32_t j = p.lane; j < size; j += p.threads) {
            const float chosen = inverse[bestRow * w.stride + j];
            inverse[bestRow * w.stride + j] = inverse[k * w.stride + j];
            inverse[k * w.stride + j] = (j == k ? 1.0F : chosen) / pivot;
        }
        __syncthreads();

        for (int32_t i = p.firstRow; i < size; i += p.rowStep) {
            if (i != k) {
                const float factor = w.column[i == bestRow ? k : i];  // `column` is older than the exchange
                for (int32_t j = p.firstColumn; j < size; j += p.columnStep) {
                    const float value = j == k ? 0.0F : inverse[i * w.stride + j];
                    inverse[i * w.stride + j] = fmaf(-factor, inverse[k * w.stride + j], value);
                }
            }
        }
        __syncthreads();
    }
}

}  // namespace matrix_inverse_detail
}  // namespace trtsmith
