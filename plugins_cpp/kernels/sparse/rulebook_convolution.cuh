// Convolution of the rows of a sparse tensor along a rulebook, forward. Declaration only: needs neither nvcc nor TensorRT.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/dtype.hpp"

namespace trtsmith {

enum class RulebookActivation : int32_t { kNone, kRelu, kSigmoid, kLeakyRelu };

// Device pointers, row-major, aligned to their element size; null when there is no element. T is `type`. The output must not
// overlap an input.
struct RulebookConvolutionParams {
    DType type;            // kFloat32, kFloat16 or kBFloat16
    const void* features;  // T [inputs, channels]
    const void* weights;   // T [filters, taps, channels]
    const int32_t* pairs;  // [taps, rows], any numbers
    const void* bias;      // T [filters], or null
    void* output;          // T [rows, filters]
    RulebookActivation activation;
    float slope;  // of the leaky ReLU below zero
};

struct RulebookConvolutionShape {
    int64_t inputs;
    int64_t channels;  // less than 2^31 - 128, as filters
    int64_t taps;      // at most 2^15
    int64_t rows;      // less than 2^31
    int64_t filters;
};

// output[j, o] = activation(bias[o] + the sum over taps k and channels c of features[pairs[k, j], c] * weights[o, k, c]), where
// pairs that are no rows of the features count as nothing. Sums are of float32; float inputs are multiplied as exactly.
//
// cudaErrorInvalidValue: a size out of range, another type, or a null pointer to a tensor that has elements.
cudaError_t rulebookConvolution(const RulebookConvolutionParams& params, const RulebookConvolutionShape& shape,
                                cudaStream_t stream);

}  // namespace trtsmith
