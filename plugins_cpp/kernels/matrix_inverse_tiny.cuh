// The inverse of matrices of up to four rows: a thread to a matrix, in registers.
#pragma once

#include "compensated.cuh"
#include "dispatch.cuh"
#include "matrix_inverse_arguments.cuh"

namespace trtsmith {
namespace matrix_inverse_detail {

constexpr int kMaxTiny = 4;  // not tuned by measurement yet
constexpr int kTinyThreads = 128;

__device__ inline void swapIf(bool condition, float& first, float& second) {
    const float kept = first;
    first = condition ? second : first;
    second = condition ? kept : second;
}

// One thread a matrix, on [matrix | identity], then the correction row by row. Every index is a constant after
// unrolling, so all of it stays in registers: rows are exchanged by selection. Without the bound of seven blocks the
// compiler aims at fewer registers than n = 3 needs and spills, for sm_80.
template <int kSize>
__global__ void __launch_bounds__(kTinyThreads, 7) tinyKernel(const Arguments a) {
    const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
    for (int64_t matrix = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; matrix < a.batch;
         matrix += step) {
        const int64_t base = matrix * kSize * kSize;
        float matrixElements[kSize][kSize];
        float left[kSize][kSize];
        float right[kSize][kSize];
#pragma unroll
        for (int i = 0; i < kSize; ++i) {
#pragma unroll
            for (int j = 0; j < kSize; ++j) {
                matrixElements[i][j] = loadElement(a.input, base + i * kSize + j, a.type);
                left[i][j] = matrixElements[i][j];
                right[i][j] = i == j ? 1.0F : 0.0F;
            }
        }
#pragma unroll
        for (int k = 0; k < kSize; ++k) {
#pragma unroll
            for (int i = k + 1; i < kSize; ++i) {
                const bool larger = fabsf(left[i][k]) > fabsf(left[k][k]);
#pragma unroll
                for (int j = 0; j < kSize; ++j) {
                    swapIf(larger, left[k][j], left[i][j]);
                    swapIf(larger, right[k][j], right[i][j]);
                }
            }
            const float pivot = left[k][k];
#pragma unroll
            for (int j = 0; j < kSize; ++j) {
                left[k][j] /= pivot;
                right[k][j] /= pivot;
            }
#pragma unroll
            for (int i = 0; i < kSize; ++i) {
                if (i != k) {
                    const float factor = left[i][k];
#pragma unroll
                    for (int j = 0; j < kSize; ++j) {
                        left[i][j] = fmaf(-factor, left[k][j], left[i][j]);
                        right[i][j] = fmaf(-factor, right[k][j], right[i][j]);
                    }
                }
            }
        }
#pragma unroll
        for (int i = 0; i < kSize; ++i) {
            float residual[kSize];
            float norm = 0.0F;
#pragma unroll
            for (int j = 0; j < kSize; ++j) {
                float sum = i == j ? 1.0F : 0.0F;
                float error = 0.0F;
#pragma unroll
                for (int k = 0; k < kSize; ++k) {
                    addProduct(-right[i][k], matrixElements[k][j], sum, error);
                }
                residual[j] = sum + error;
                norm += fabsf(residual[j]);
            }
#pragma unroll
            for (int j = 0; j < kSize; ++j) {
                float correction = 0.0F;
#pragma unroll
                for (int k = 0; k < kSize; ++k) {
                    correction = fmaf(residual[k], right[k][j], correction);
                }
                storeElement(a.output, base + i * kSize + j, a.type,
                             norm <= kMaxResidual ? right[i][j] + correction : right[i][j]);
            }
        }
    }
}

template <int kSize>
cudaError_t launchTiny(const Arguments& arguments, cudaStream_t stream) {
    return launch(tinyKernel<kSize>, gridBlocks(ceilDivide(arguments.batch, kTinyThreads)), kTinyThreads, 0, stream,
                  arguments);
}

}  // namespace matrix_inverse_detail
}  // namespace trtsmith
