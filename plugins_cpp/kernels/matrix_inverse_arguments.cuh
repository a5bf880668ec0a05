// The arguments of the matrix inverse's kernels, and elements of a type that is read at run time.
#pragma once

#include <cstdint>

#include "convert.cuh"
#include "dtype.hpp"

namespace trtsmith {
namespace matrix_inverse_detail {

// A row of the inverse is corrected where its residual has at most this 1-norm. The error that is left in it is then
// at most half of the largest of any row before, so a correction cannot harm; NaN is never at most anything.
constexpr float kMaxResidual = 0.5F;

// The element type is read at run time: it costs nothing beside n^3 steps, and saves two thirds of the kernels.
struct Arguments {
    DType type;
    const void* input;
    void* output;
    int64_t batch;
    int32_t size;
    int32_t teamThreads;  // whole warps
    int32_t columnLanes;  // a power of two up to the warp: neighbouring threads take neighbouring columns
    int32_t panelRows;    // rows of the residual that a team holds at a time
    int32_t panels;       // workspace only: blocks that correct one matrix
    int64_t firstMatrix;  // workspace only: the first of the launch
    float* workspace;
    int64_t slab;  // words of workspace or shared memory for one matrix
};

__device__ inline float loadElement(const void* source, int64_t position, DType type) {
    switch (type) {
        case DType::kFloat16:
            return loadFloat(static_cast<const __half*>(source) + position);
        case DType::kBFloat16:
            return loadFloat(static_cast<const __nv_bfloat16*>(source) + position);
        default:
            return loadFloat(static_cast<const float*>(source) + position);
    }
}

__device__ inline void storeElement(void* target, int64_t position, DType type, float value) {
    switch (type) {
        case DType::kFloat16:
            static_cast<__half*>(target)[position] = fromFloat<__half>(value);
            break;
        case DType::kBFloat16:
            static_cast<__nv_bfloat16*>(target)[position] = fromFloat<__nv_bfloat16>(value);
            break;
        default:
            static_cast<float*>(target)[position] = value;
    }
}

}  // namespace matrix_inverse_detail
}  // namespace trtsmith
