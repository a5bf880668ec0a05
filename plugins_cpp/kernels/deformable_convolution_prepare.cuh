// Operands of the tensor-core path: x in chunks of channels and the weights in the order of DepthOrder, in one launch.
#pragma once

#include "convert.cuh"
#include "deformable_convolution_layout.cuh"
#include "dispatch.cuh"
#include "warp.cuh"

namespace trtsmith {
namespace tiled {

constexpr int kPrepareThreads = 256;
constexpr int kPreparePixels = 64;

template <typename T>
struct PrepareArguments {
    const T* x;                                // [images, channels, plane]
    T* chunked;                                // [chunks, PaddedPlanes, channels of a chunk]
    const T* weight;                           // [rows, weightRow]
    typename OperandOf<T>::type* weightSteps;  // [groups, steps, groupOut, kRowElements], rows swizzled
    int32_t* rowExponents;                     // fp32: [rows], the scale of each row
    Header* header;
    int64_t channels;
    int64_t plane;
    int64_t images;
    int32_t height;
    FastDivider width;
    PaddedPlanes padded;
    int64_t weightRow;
    int64_t rows;  // of weights to lay out
    FastDivider channelTiles;
    FastDivider pixelTiles;
    int64_t pieces;  // rows, then tiles of x
    int32_t groupOut;
    DepthOrder order;
    bool vectorLoads;  // four pixels of x may be loaded at once
};

__device__ inline uint32_t finiteBits(float value) {
    const uint32_t bits = __float_as_uint(value) & 0x7fffffffU;
    return bits < 0x7f800000U ? bits : 0U;
}

// Largest of a block's values, to all its threads.
__device__ inline uint32_t blockMaximum(uint32_t value, uint32_t* scratch) {
    value = warpMax(value);
    if (threadIdx.x % 32 == 0) {
        scratch[threadIdx.x / 32] = value;
    }
    __syncthreads();
    for (int warp = 0; warp < kPrepareThreads / 32; ++warp) {
        value = scratch[warp] > value ? scratch[warp] : value;
    }
    return value;
}

// Where the element of that number lies in a row of shared memory: 16-byte chunks are exchanged by the last 3 bits of
// the row's number, so that 8 rows' chunks of one number lie in different banks (the tensor cores' 128-byte swizzle).
__device__ inline int32_t swizzled(int32_t element, int32_t key) {
    constexpr int32_t kUnitElements = kRowElements / kStepUnits;
    return (element / kUnitElements ^ key) * kUnitElements + element % kUnitElements;
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
    const int64_t inGroup = row - group * a.groupOut;
    Operand* target = a.weightSteps + (group * a.order.steps * a.groupOut + inGroup) * kRowElements;
    const int32_t key = static_cast<int32_t>(inGroup) & 7;
    const int32_t depth = a.order.steps * kStepDepth;
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < depth; i += kPrepareThreads) {
        const int32_t unit = i / kUnitChannels;
        const int32_t site = a.order.chunkUnits.quotient(unit);
        const int32_t chunk = a.order.taps.quotient(site);
        const int32_t tap = site - chunk * static_cast<int32_t>(a.order.taps.divisor);
        const int32_t channelUnit = unit + (chunk - site) * static_cast<int32_t>(a.order.chunkUnits.divisor);
        const int64_t channel = static_cast<int64_t>(channelUnit) * kUnitChannels + i % kUnitChannels;
        const float value = loadFloat(source + channel * a.order.taps.divisor + tap, unit < a.order.units);
        Operand* const step = target + static_cast<int64_t>(i / kStepDepth) * a.groupOut * kRowElements;
        const int32_t place = swizzled(i % kStepDepth, key);
        if constexpr (OperandOf<T>::kSplit) {
            const __half high = __float2half_rn(value * scale);
            step[place] = high;
            step[place ^ kStepDepth] = __float2half_rn(value * scale - __half2float(high));
        } else {
            step[place] = fromFloat<Operand>(value);
        }
    }
}

// Four neighbouring elements, of which `left` exist; zeros for the others.
template <typename T>
__device__ inline void loadFour(const T* source, int64_t left, bool vectorLoads, T (&values)[4]) {
    using Word = typename WordOf<4 * static_cast<int>(sizeof(T))>::type;
    Word word{};
    if (vectorLoads) {
        if (left > 0) {
            word = __ldg(reinterpret_cast<const Word*>(source));
        }
        memcpy(static_cast<void*>(values), &word, sizeof(word));
    } else {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            values[j] = j < left ? __ldg(source + j) : fromFloat<T>(0.0F);
        }
    }
}

template <typename T>
__device__ inline void transpose(const PrepareArguments<T>& a, int32_t piece, uint32_t* tile, uint32_t* scratch) {
    constexpr int kUnitChannels = kUnitBytes / static_cast<int>(sizeof(T));
    constexpr int kTileChannels = kStepUnits * kUnitChannels;
    constexpr int kWordChannels = 4 / static_cast<int>(sizeof(T));
    constexpr int kStride = kPreparePixels + 1;
    constexpr int kLoadLanes = kPreparePixels / 4;
    constexpr int kLoadRows = kPrepareThreads / kLoadLanes;
    constexpr int kRows = kTileChannels / kWordChannels / kLoadRows;
    const int32_t rest = a.pixelTiles.quotient(piece);
    const int32_t pixelTile = piece - rest * static_cast<int32_t>(a.pixelTiles.divisor);
    const int64_t image = a.channelTiles.quotient(rest);
    const int64_t channelBegin = (rest - image * a.channelTiles.divisor) * kTileChannels;
    const int64_t pixelBegin = int64_t{pixelTile} * kPreparePixels;
    const int thread = static_cast<int>(threadIdx.x);

    // A word of the tile holds one pixel of kWordChannels neighbouring channels, so that a unit is four words.
    const int column = thread % kLoadLanes * 4;
    const int64_t pixelsLeft = a.plane - pixelBegin - column;
    T values[kRows][kWordChannels][4];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int k = 0; k < kWordChannels; ++k) {
            const int64_t channel = channelBegin + (thread / kLoadLanes + i * kLoadRows) * kWordChannels + k;
            const T* source = a.x + (image * a.channels + channel) * a.plane + pixelBegin + column;
            loadFour(source, channel < a.channels ? pixelsLeft : 0, a.vectorLoads, values[i][k]);
        }
    }
    uint32_t largest = 0U;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
        const int row = thread / kLoadLanes + i * kLoadRows;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            T elements[kWordChannels];
#pragma unroll
            for (int k = 0; k < kWordChannels; ++k) {
                elements[k] = values[i][k][j];
            }
            memcpy(&tile[row * kStride + column + j], elements, sizeof(uint32_t));
            if constexpr (OperandOf<T>::kSplit) {
                const uint32_t bits = finiteBits(values[i][0][j]);
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
    uint4* const target =
        reinterpret_cast<uint4*>(a.chunked) + chunk * a.padded.pixels * chunkUnits + (number - chunk * chunkUnits);
    const auto store = [&](int64_t place, const uint4& word) { target[place * chunkUnits] = word; };
    const uint4 zero = make_uint4(0U, 0U, 0U, 0U);
#pragma unroll
    for (int i = 0; i < kPreparePixels / (kPrepareThreads / kStepUnits); ++i) {
        const int pixel = thread / kStepUnits + i * (kPrepareThreads / kStepUnits);
        if (inside && pixelBegin + pixel < a.plane) {
            const uint32_t* const words = tile + unit * 4 * kStride + pixel;
            const uint4 word = make_uint4(words[0], words[kStride], words[2 * kStride], words[3 * kStride]);
            const int32_t row = a.width.quotient(static_cast<int32_t>(pixelBegin) + pixel);
            const int32_t column =
                static_cast<int32_t>(pixelBegin) + pixel - row * static_cast<int32_t>(a.width.divisor);
            const int64_t place = a.padded.first + image * a.padded.image + row * a.padded.pitch + column;
            const bool lastRow = row == a.height - 1;
            const bool lastColumn = column == static_cast<int32_t>(a.width.divisor) - 1;
            store(place, word);
            if (lastColumn) {
                store(place + 1, zero);
            }
            if (lastRow) {
                store(place + a.padded.pitch, zero);
            }
            if (lastRow && lastColumn) {
                store(place + a.padded.pitch + 1, zero);
            }
        }
    }
    if (inside && pixelTile == 0) {
        const int64_t begin = thread / kStepUnits;
        for (int64_t place = begin; image == 0 && place < a.padded.first; place += kPrepareThreads / kStepUnits) {
            store(place, zero);
        }
        for (int64_t place = a.padded.end + begin; image == a.images - 1 && place < a.padded.pixels;
             place += kPrepareThreads / kStepUnits) {
            store(place, zero);
        }
    }
}

template <typename T>
__global__ void __launch_bounds__(kPrepareThreads) prepareKernel(const PrepareArguments<T> a) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    __shared__ uint32_t tile[kStepUnits * 4 * (kPreparePixels + 1)];
    __shared__ uint32_t scratch[kPrepareThreads / 32];
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");  // the next kernel may set itself up
#endif
    for (int64_t piece = blockIdx.x; piece < a.pieces; piece += gridDim.x) {
        if (piece < a.rows) {
            layOutWeights(a, piece, scratch);
        } else {
            transpose(a, static_cast<int32_t>(piece - a.rows), tile, scratch);
        }
        __syncthreads();
    }
#endif
}

}  // namespace tiled
}  // namespace trtsmith
