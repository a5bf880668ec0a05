// Rows of segments reduced to one row each: a warp has a segment, its lanes have the columns, and several rows at a time
// where a row is short. Sums are added in one order, whoever comes first.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <type_traits>

#include "kernels/convert.cuh"
#include "kernels/dispatch.cuh"
#include "kernels/reduction/segment_reduction.cuh"
#include "kernels/warp.cuh"

namespace trtsmith {
namespace segment_rows {

constexpr int32_t kThreads = 256;
constexpr int32_t kBlocks = 4;  // of a multiprocessor: told none, ptxas takes 32 registers and spills
constexpr int32_t kNoRow = 0x7fffffff;

// Where the rows of a segment are: between two offsets, or in a list.
struct Offsets {
    const void* offsets;  // [segments + 1], int32 or int64
    bool wide;
    int64_t rows;

    // Offsets that lie outside, or before the one that they follow, hold no row.
    __device__ int64_t at(int64_t index) const {
        const int64_t offset =
            wide ? static_cast<const int64_t*>(offsets)[index] : int64_t{static_cast<const int32_t*>(offsets)[index]};
        return offset < 0 ? 0 : (offset > rows ? rows : offset);
    }
    __device__ int32_t first(int64_t segment) const { return static_cast<int32_t>(at(segment)); }
    __device__ int32_t count(int64_t segment) const {
        const int64_t count = at(segment + 1) - at(segment);
        return static_cast<int32_t>(count > 0 ? count : 0);
    }
};

// Segments cut into as many parts each, of rows side by side: few long segments leave a GPU idle.
struct Parts {
    Offsets whole;
    int32_t parts;

    // Of each part of a segment of `count` rows, but for the last ones.
    __device__ int64_t length(int64_t count) const { return (count + parts - 1) / parts; }
    __device__ int32_t first(int64_t part) const {
        const int64_t segment = part / parts;
        const int64_t before = (part - segment * parts) * length(whole.count(segment));
        return static_cast<int32_t>(whole.first(segment) + before);
    }
    __device__ int32_t count(int64_t part) const {
        const int64_t segment = part / parts;
        const int64_t count = whole.count(segment);
        const int64_t left = count - (part - segment * parts) * length(count);
        return static_cast<int32_t>(left < 0 ? 0 : (left < length(count) ? left : length(count)));
    }
};

struct Lists {
    const int32_t* starts;  // [segments]
    const int32_t* counts;
    const int32_t* rows;

    __device__ int32_t first(int64_t segment) const { return starts[segment]; }
    __device__ int32_t count(int64_t segment) const { return counts[segment]; }
};

struct Arguments {
    const void* source;      // T [rows, columns]
    void* output;            // [segments, columns]
    int64_t* origin;         // see IndexedReductionParams; null where nobody asks
    const int32_t* written;  // how many segments to write; null: all
    int64_t rows;
    int64_t columns;
    int64_t segments;
    int64_t pieces;  // of a row, that many columns a warp
    Reduction reduction;
    const void* data = nullptr;  // see IndexedReductionParams
};

// A warp's 32 numbers in order, the smallest in lane 0.
__device__ inline int32_t sortWarp(int32_t value, int32_t lane) {
#pragma unroll
    for (int width = 2; width <= kWarp; width *= 2) {
#pragma unroll
        for (int step = width / 2; step > 0; step /= 2) {
            const int32_t other = __shfl_xor_sync(kAllLanes, value, step);
            const bool up = (lane & width) == 0 || width == kWarp;
            const bool lower = (lane & step) == 0;
            value = (lower == up) == (value < other) ? value : other;
        }
    }
    return value;
}

template <int kVector, typename Output>
__device__ inline void storeRow(Output* target, const float (&values)[kVector]) {
    if constexpr (kVector * sizeof(Output) <= 16) {
        storeFloats<kVector>(target, values);
    } else {
        constexpr int kHalf = kVector / 2;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float half[kHalf];
#pragma unroll
            for (int v = 0; v < kHalf; ++v) {
                half[v] = values[i * kHalf + v];
            }
            storeFloats<kHalf>(target + i * kHalf, half);
        }
    }
}

// kInto: each segment begins with its row of `data`.
template <typename T, typename Output, int kVector, bool kListed, bool kInto, bool kExtreme, typename Where>
__global__ void __launch_bounds__(kThreads, kBlocks)
    rowsKernel(const __grid_constant__ Arguments a, const __grid_constant__ Where where) {
    const T* const source = static_cast<const T*>(a.source);
    Output* const output = static_cast<Output*>(a.output);
    const int32_t lane = static_cast<int32_t>(threadIdx.x) % kWarp;
    const int64_t vectors = a.columns / kVector;
    int32_t lanes = 1;  // that share a row
    while (lanes < kWarp && lanes < vectors) {
        lanes *= 2;
    }
    const int32_t teams = kWarp / lanes;
    const int32_t team = lane / lanes;
    const float sign = a.reduction == Reduction::kMin ? -1.0F : 1.0F;
    const int64_t segments = a.written != nullptr ? *a.written : a.segments;
    const int64_t warps = int64_t{gridDim.x} * (kThreads / kWarp);
    for (int64_t item = (int64_t{blockIdx.x} * kThreads + threadIdx.x) / kWarp; item < segments * a.pieces;
         item += warps) {
        const int64_t segment = item / a.pieces;
        const int64_t column = ((item - segment * a.pieces) * lanes + lane % lanes) * kVector;
        const bool has = column < a.columns;
        const int32_t count = where.count(segment);
        const int32_t first = count > 0 ? where.first(segment) : 0;  // a list without rows has no beginning
        int32_t own = kNoRow;
        if constexpr (kListed) {
            if (count <= kWarp) {
                own = lane < count ? where.rows[first + lane] : kNoRow;
                own = kExtreme ? own : sortWarp(own, lane);
            }
        }
        float values[kVector];
        int32_t origins[kVector];
#pragma unroll
        for (int v = 0; v < kVector; ++v) {
            values[v] = kExtreme ? -INFINITY : 0.0F;
            origins[v] = kNoRow;
        }
        if constexpr (kInto) {
            if (team == 0) {
                loadFloats<kVector>(static_cast<const T*>(a.data) + segment * a.columns + column, has, values);
#pragma unroll
                for (int v = 0; v < kVector; ++v) {
                    if constexpr (kExtreme) {
                        const bool counts = values[v] == values[v] || count == 0;
                        values[v] = counts ? sign * values[v] : -INFINITY;
                    }
                    origins[v] = -1;  // before all rows
                }
            }
        }
#pragma unroll 4
        for (int64_t begin = 0; begin < count; begin += teams) {
            const bool valid = begin + team < count;
            const int32_t k = valid ? static_cast<int32_t>(begin) + team : 0;
            int32_t row = first + k;
            if constexpr (kListed) {
                row = __shfl_sync(kAllLanes, own, k % kWarp);
                if (count > kWarp) {
                    row = valid ? where.rows[first + k] : 0;
                }
            }
            float elements[kVector];
            loadFloats<kVector>(source + row * a.columns + column, valid && has, elements);
#pragma unroll
            for (int v = 0; v < kVector; ++v) {
                if constexpr (kExtreme) {
                    // What is no number is as far from the extreme as can be.
                    const float value = elements[v] == elements[v] ? sign * elements[v] : -INFINITY;
                    if (valid && (value > values[v] || (value == values[v] && row < origins[v]))) {
                        values[v] = value;
                        origins[v] = row;
                    }
                } else {
                    values[v] += elements[v];
                }
            }
        }
        for (int32_t step = lanes; step < kWarp; step *= 2) {
#pragma unroll
            for (int v = 0; v < kVector; ++v) {
                const float value = __shfl_xor_sync(kAllLanes, values[v], step);
                if constexpr (kExtreme) {
                    const int32_t row = __shfl_xor_sync(kAllLanes, origins[v], step);
                    if (value > values[v] || (value == values[v] && row < origins[v])) {
                        values[v] = value;
                        origins[v] = row;
                    }
                } else {
                    values[v] += value;
                }
            }
        }
        if (team == 0 && has) {
#pragma unroll
            for (int v = 0; v < kVector; ++v) {
                const float value = kExtreme ? sign * values[v] : values[v];
                const int32_t number = count + (kInto ? 1 : 0);
                const bool mean = a.reduction == Reduction::kMean && number > 0;
                values[v] = number == 0 ? 0.0F : (mean ? value / static_cast<float>(number) : value);
            }
            storeRow<kVector>(output + segment * a.columns + column, values);
            if constexpr (kExtreme) {
                for (int v = 0; v < kVector && a.origin != nullptr; ++v) {
                    a.origin[segment * a.columns + column + v] = count == 0 ? a.rows : origins[v];
                }
            }
        }
        if (!kExtreme && a.origin != nullptr && lane == 0 && item == segment * a.pieces) {
            a.origin[segment] = count;
        }
    }
}

template <typename T, typename Output, int kVector, bool kListed, bool kInto, typename Where>
cudaError_t reduceRows(Arguments a, const Where& where, cudaStream_t stream) {
    const int64_t vectors = a.columns / kVector;
    a.pieces = vectors > kWarp ? ceilDivide(vectors, kWarp) : 1;
    const bool extreme = a.reduction == Reduction::kMax || a.reduction == Reduction::kMin;
    const unsigned int blocks = gridBlocks(ceilDivide(a.segments * a.pieces, kThreads / kWarp));
    const auto kernel = extreme ? rowsKernel<T, Output, kVector, kListed, kInto, true, Where>
                                : rowsKernel<T, Output, kVector, kListed, kInto, false, Where>;
    return launch(kernel, blocks, kThreads, 0, stream, a, where);
}

// kWide: the output is float32, whatever the source is.
template <bool kListed, bool kWide, bool kInto = false, typename Where>
cudaError_t reduceRows(DType type, const Arguments& a, const Where& where, cudaStream_t stream) {
    return withFloatType(type, [&](auto tag) -> cudaError_t {
        using T = typename decltype(tag)::type;
        using Output = std::conditional_t<kWide, float, T>;
        constexpr int kVector = 16 / static_cast<int>(sizeof(T));
        if (a.segments == 0) {
            return cudaSuccess;
        }
        const bool wide =
            a.columns % kVector == 0 && isAligned(a.source, 16) && isAligned(a.output, 16) && isAligned(a.data, 16);
        return wide ? reduceRows<T, Output, kVector, kListed, kInto>(a, where, stream)
                    : reduceRows<T, Output, 1, kListed, kInto>(a, where, stream);
    });
}

}  // namespace segment_rows
}  // namespace trtsmith
