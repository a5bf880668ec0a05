// The step of iterative refinement by a team of threads: the residual in twice the precision, then the corrected rows.
#pragma once

#include <cstdint>

#include "compensated.cuh"
#include "matrix_inverse_team.cuh"

namespace trtsmith {
namespace matrix_inverse_detail {

// Rows of I - inverse * exchanged input from `top` on, kTileRows of them to a thread, into `panel`; their norms into
// `column`. The sums cancel nearly all of their products, hence the compensation.
template <typename T>
__device__ inline void residualRows(const T* input, const Work& w, const Place& p, int32_t top) {
    const int32_t size = w.size;
    int32_t rows[kTileRows];
    const float* inverseRows[kTileRows];
    float norms[kTileRows];
#pragma unroll
    for (int q = 0; q < kTileRows; ++q) {
        rows[q] = top + p.firstRow + q * p.rowStep;
        // Beyond the last row a thread repeats that row and keeps nothing.
        inverseRows[q] = w.inverse + (rows[q] < size ? rows[q] : size - 1) * w.stride;
        norms[q] = 0.0F;
    }
    for (int32_t j = p.firstColumn; j < size; j += p.columnStep) {
        float sums[kTileRows];
        float errors[kTileRows];
#pragma unroll
        for (int q = 0; q < kTileRows; ++q) {
            sums[q] = rows[q] == j ? 1.0F : 0.0F;
            errors[q] = 0.0F;
        }
#pragma unroll 2
        for (int32_t m = 0; m < size; ++m) {
            const float element = loadFloat(input + static_cast<int64_t>(w.origin[m]) * size + j);
#pragma unroll
            for (int q = 0; q < kTileRows; ++q) {
                addProduct(-inverseRows[q][m], element, sums[q], errors[q]);
            }
        }
#pragma unroll
        for (int q = 0; q < kTileRows; ++q) {
            const float residual = sums[q] + errors[q];
            norms[q] += fabsf(residual);
            if (rows[q] < size) {
                w.panel[static_cast<int64_t>(rows[q] - top) * size + j] = residual;
            }
        }
    }
#pragma unroll
    for (int q = 0; q < kTileRows; ++q) {
        for (int distance = p.columnStep / 2; distance > 0; distance /= 2) {
            norms[q] += __shfl_xor_sync(0xffffffffU, norms[q], distance);
        }
        if (p.firstColumn == 0 && rows[q] < size) {
            w.column[rows[q]] = norms[q];
        }
    }
}

// Stores inverse + residual * inverse for the rows in `panel`. `inverse` itself stays, as every row needs all of it.
__device__ inline void storeRows(void* output, int64_t base, DType type, const Work& w, const Place& p, int32_t top) {
    const int32_t size = w.size;
    int32_t rows[kTileRows];
    const float* residualRows[kTileRows];
#pragma unroll
    for (int q = 0; q < kTileRows; ++q) {
        rows[q] = top + p.firstRow + q * p.rowStep;
        residualRows[q] = w.panel + static_cast<int64_t>((rows[q] < size ? rows[q] : size - 1) - top) * size;
    }
    for (int32_t j = p.firstColumn; j < size; j += p.columnStep) {
        float corrections[kTileRows] = {};
#pragma unroll 2
        for (int32_t m = 0; m < size; ++m) {
            const float element = w.inverse[m * w.stride + j];
#pragma unroll
            for (int q = 0; q < kTileRows; ++q) {
                corrections[q] = fmaf(residualRows[q][m], element, corrections[q]);
            }
        }
#pragma unroll
        for (int q = 0; q < kTileRows; ++q) {
            if (rows[q] < size) {
                const float value = w.inverse[rows[q] * w.stride + j];
                storeElement(output, base + static_cast<int64_t>(rows[q]) * size + w.origin[j], type,
                             w.column[rows[q]] <= kMaxResidual ? value + corrections[q] : value);
            }
        }
    }
}

// Stores the corrected inverse, from row `top` on in steps of `step` rows. All barriers are the block's.
__device__ inline void correct(const Arguments& a, int64_t base, const Work& w, const Place& p, int32_t top,
                               int32_t step, bool store) {
    for (; top < w.size; top += step) {
        switch (a.type) {  // outside of the loops over products, unlike loadElement
            case DType::kFloat16:
                residualRows(static_cast<const __half*>(a.input) + base, w, p, top);
                break;
            case DType::kBFloat16:
                residualRows(static_cast<const __nv_bfloat16*>(a.input) + base, w, p, top);
                break;
            default:
                residualRows(static_cast<const float*>(a.input) + base, w, p, top);
        }
        __syncthreads();
        if (store) {
            storeRows(a.output, base, a.type, w, p, top);
        }
        __syncthreads();
    }
}

}  // namespace matrix_inverse_detail
}  // namespace trtsmith
