// Operands of the tensor-core path: x in chunks of channels and the weights in the order of DepthOrder, in one launch.
#pragma once

#include "convert.cuh"
#include "deformable_convolution_layout.cuh"
#include "dispatch.cuh"

namespace trtsmith {
namespace tiled {

constexpr int kPrepareThreads = 256;
constexpr int kPreparePixels = 64;

template <typename T>
struct PrepareArguments {
    const T* x;                                // [images, channels, plane]
    T* chunked;                                // [chunks, images, plane, channels of a chunk]
    const T* weight;                           // [rows, weightRow]
    typename OperandOf<T>::type* weightSteps;  // [groups, steps, groupOut, kRowElements]
    int32_t* rowExponents;                     // fp32: [rows], the scale of each row
    Header* header;
    int64_t channels;
    int64_t plane;
    int64_t pixels;  // images * plane
    int64_t weightRow;
    int64_t rows;          // of weights to lay out
    int64_t channelTiles;
    int64_t pixelTiles;
    int64_t pieces;        // rows, then tiles of x
    int32_t groupOut;
    DepthOrder order;
    bool vectorLoads;      // four pixels of x may be loaded at once
};

__device__ inline uint32_t finiteBits(float value) {
    const uint32_t bits = __float_as_uint(value) & 0x7fffffffU;
    return bits < 0x7f800000U ? bits : 0U;
}

// Largest of a block's values, to all its threads.
__device__ inline uint32_t blockMaximum(uint32_t value, uint32_t* scratch) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
        const uint32_t other = __shfl_xor_sync(0xffffffffU, value, distance);
        value = other > value ? other : value;
    }
    if (threadIdx.x % 32 == 0) {
        scratch[threadIdx.x / 32] = value;
    }
    __syncthreads();
    for (int warp = 0; warp < kPrepareThreads / 32; ++warp) {
        value = scratch[warp] > value ? scratch[warp] : value;
    }
    return value;
}

template <typename T>
__device__ inline void layOutWeights(const PrepareArguments<T>& a, int64_t row, uint32_t* scratch) {
    using Operand = typename OperandOf<T>::type;
    constexpr int kUnitChannels = kUnitBytes / static_cast<int>(sizeof(T));
    constexpr int kStepDepth = kStepUnits * kUnitChannels;
    const T* source = a.weight + row * a.weightRow;
    float scale = 1.0F;
    if constexpr (OperandOf<T>::kSplit) {
        uint32_t largest = 0U;
        for (int64_t i = threadIdx.x; i < a.weightRow; i += kPrepareThreads) {
            const uint32_t bits = finiteBits(source[i]);
            largest = bits > largest ? bits : largest;
        }
        const int32_t exponent = scaleExponent(blockMaximum(largest, scratch));
        scale = powerOfTwo(exponent);
        if (threadIdx.x == 0) {
            a.rowExponents[row] = exponent;
        }
    }
    const int64_t group = row / a.groupOut;
    Operand* target = a.weightSteps + (group * a.order.steps * a.groupOut + row - group * a.groupOut) * kRowElements;
    const int32_t depth = a.order.steps * kStepDepth;
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < depth; i += kPrepareThreads) {
        const int32_t unit = i / kUnitChannels;
        const int32_t site = a.order.chunkUnits.quotient(unit);
        const int32_t chunk = a.order.taps.quotient(site);
        const int32_t tap = site - chunk * static_cast<int32_t>(a.order.taps.divisor);
        const int32_t place = unit + (chunk - site) * static_cast<int32_t>(a.order.chunkUnits.divisor);
        const int64_t channel = static_cast<int64_t>(place) * kUnitChannels + i % kUnitChannels;
        const float value = loadFloat(source + channel * a.order.taps.divisor + tap, unit < a.order.units);
        Operand* cell = target + static_cast<int64_t>(i / kStepDepth) * a.groupOut * kRowElements + i % kStepDepth;
        if constexpr (OperandOf<T>::kSplit) {
            const __half high = __float2half_rn(value * scale);
            cell[0] = high;
            cell[kStepDepth] = __float2half_rn(value * scale - __half2float(high));
        } else {
            cell[0] = fromFloat<Operand>(value);
        }
    }
}

template <typename T>
__device__ inline void transpose(const PrepareArguments<T>& a, int64_t piece, T* tile, uint32_t* scratch) {
    constexpr int kUnitChannels = kUnitBytes / static_cast<int>(sizeof(T));
    constexpr int kTileChannels = kStepUnits * kUnitChannels;
    constexpr int kStride = kPreparePixels + 4 / static_cast<int>(sizeof(T));  // an odd number of words
    constexpr int kLoadLanes = kPreparePixels / 4;
    constexpr int kLoadRows = kPrepareThreads / kLoadLanes;
    const int64_t pixelTile = piece % a.pixelTiles;
    const int64_t rest = piece / a.pixelTiles;
    const int64_t image = rest / a.channelTiles;
    const int64_t channelBegin = (rest - image * a.channelTiles) * kTileChannels;
    const int64_t pixelBegin = pixelTile * kPreparePixels;
    const int thread = static_cast<int>(threadIdx.x);

    const int column = thread % kLoadLanes * 4;
    const T* source = a.x + (image * a.channels + channelBegin) * a.plane + pixelBegin + column;
    const int64_t pixelsLeft = a.plane - pixelBegin - column;
    float values[kTileChannels / kLoadRows][4];
#pragma unroll
    for (int i = 0; i < kTileChannels / kLoadRows; ++i) {
        const int row = thread / kLoadLanes + i * kLoadRows;
        const bool inside = channelBegin + row < a.channels;
        if (a.vectorLoads) {
            loadFloats<4>(source + row * a.plane, inside && pixelsLeft > 0, values[i]);
        } else {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                values[i][j] = loadFloat(source + row * a.plane + j, inside && j < pixelsLeft);
            }
        }
    }
    uint32_t largest = 0U;
#pragma unroll
    for (int i = 0; i < kTileChannels / kLoadRows; ++i) {
        const int row = thread / kLoadLanes + i * kLoadRows;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            tile[row * kStride + column + j] = fromFloat<T>(values[i][j]);
            if constexpr (OperandOf<T>::kSplit) {
                const uint32_t bits = finiteBits(values[i][j]);
                largest = bits > largest ? bits : largest;
            }
        }
    }
    if constexpr (OperandOf<T>::kSplit) {
        largest = blockMaximum(largest, scratch);
        if (thread == 0 && largest > *static_cast<volatile uint32_t*>(&a.header->largest)) {
            atomicMax(&a.header->largest, largest);
        }
    }
    __syncthreads();

    const int unit = thread % kStepUnits;
    const bool inside = channelBegin + unit * kUnitChannels < a.channels;
    const int32_t chunkUnits = static_cast<int32_t>(a.order.chunkUnits.divisor);
    const int32_t number = static_cast<int32_t>(channelBegin / kUnitChannels) + unit;
    const int32_t chunk = a.order.chunkUnits.quotient(number);
    const int64_t first = (chunk * a.pixels + image * a.plane) * chunkUnits + number - chunk * chunkUnits;
#pragma unroll
    for (int i = 0; i < kPreparePixels / (kPrepareThreads / kStepUnits); ++i) {
        const int pixel = thread / kStepUnits + i * (kPrepareThreads / kStepUnits);
        T elements[kUnitChannels];
#pragma unroll
        for (int j = 0; j < kUnitChannels; ++j) {
            elements[j] = tile[(unit * kUnitChannels + j) * kStride + pixel];
        }
        if (inside && pixelBegin + pixel < a.plane) {
            uint4 word;
            memcpy(&word, elements, sizeof(word));
            reinterpret_cast<uint4*>(a.chunked)[first + (pixelBegin + pixel) * chunkUnits] = word;
        }
    }
}

template <typename T>
__global__ void __launch_bounds__(kPrepareThreads) prepareKernel(const PrepareArguments<T> a) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    constexpr int kTileChannels = kRowBytes / static_cast<int>(sizeof(T));
    __shared__ T tile[kTileChannels * (kPreparePixels + 4 / static_cast<int>(sizeof(T)))];
    __shared__ uint32_t scratch[kPrepareThreads / 32];
    for (int64_t piece = blockIdx.x; piece < a.pieces; piece += gridDim.x) {
        if (piece < a.rows) {
            layOutWeights(a, piece, scratch);
        } else {
            transpose(a, piece - a.rows, tile, scratch);
        }
        __syncthreads();
    }
#endif
}

}  // namespace tiled
}  // namespace trtsmith
