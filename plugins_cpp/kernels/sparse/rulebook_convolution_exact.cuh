// The convolution along a rulebook, one output at a time in float32: for devices without the tensor cores that the tiled
// kernel needs, and for outputs that are not finite there.
#pragma once

#include "kernels/convert.cuh"
#include "kernels/fast_division.cuh"
#include "kernels/sparse/rulebook_convolution.cuh"

namespace trtsmith {
namespace sparse {

template <typename T>
struct ConvolutionArguments {
    const T* features;
    const T* weights;
    const int32_t* pairs;
    const T* bias;
    T* output;
    int64_t inputs;
    int32_t channels;
    int64_t taps;
    int64_t rows;
    int64_t filters;
    int64_t filterTiles;
    int64_t tiles;       // of rows and of filters
    int32_t units;       // 16-byte pieces of a row of channels, rounded up
    FastDivider perTap;  // by units
    bool vectorStores;   // rows of the output are whole units, aligned to them
    RulebookActivation activation;
    float slope;
};

// Without bias and activation. Skips what has no pair, so that infinite weights of it count as nothing.
template <typename T>
__device__ __noinline__ float exactSum(const ConvolutionArguments<T>& a, int64_t row, int64_t filter) {
    float sum = 0.0F;
    for (int64_t tap = 0; tap < a.taps; ++tap) {
        const int64_t input = a.pairs[tap * a.rows + row];
        if (input < 0 || input >= a.inputs) {
            continue;
        }
        const T* const values = a.features + input * a.channels;
        const T* const factors = a.weights + (filter * a.taps + tap) * a.channels;
        for (int32_t channel = 0; channel < a.channels; ++channel) {
            sum = fmaf(toFloat(values[channel]), toFloat(factors[channel]), sum);
        }
    }
    return sum;
}

__device__ __noinline__ inline float sigmoid(float value) { return 1.0F / (1.0F + expf(-value)); }

// Of the activations that are two straight lines.
template <typename T>
__device__ inline float bent(const ConvolutionArguments<T>& a, float value) {
    const float below = a.activation == RulebookActivation::kLeakyRelu ? value * a.slope : 0.0F;
    return a.activation != RulebookActivation::kNone && value < 0.0F ? below : value;
}

template <typename T>
__device__ inline float activated(const ConvolutionArguments<T>& a, float value) {
    return a.activation == RulebookActivation::kSigmoid ? sigmoid(value) : bent(a, value);
}

template <typename T>
__device__ inline float biasOf(const ConvolutionArguments<T>& a, int64_t filter) {
    return a.bias != nullptr && filter < a.filters ? loadFloat(a.bias + filter) : 0.0F;
}

template <typename T>
__device__ inline T exactOutput(const ConvolutionArguments<T>& a, int64_t row, int64_t filter) {
    return fromFloat<T>(activated(a, exactSum(a, row, filter) + biasOf(a, filter)));
}

constexpr int kExactThreads = 256;

template <typename T>
__global__ void __launch_bounds__(kExactThreads) exactKernel(const __grid_constant__ ConvolutionArguments<T> a) {
    const int64_t step = int64_t{gridDim.x} * kExactThreads;
    for (int64_t i = int64_t{blockIdx.x} * kExactThreads + threadIdx.x; i < a.rows * a.filters; i += step) {
        const int64_t row = i / a.filters;
        const int64_t filter = i - row * a.filters;
        a.output[i] = exactOutput(a, row, filter);
    }
}

}  // namespace sparse
}  // namespace trtsmith
