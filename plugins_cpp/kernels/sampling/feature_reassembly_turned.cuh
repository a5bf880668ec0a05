// Content-aware reassembly of features from maps with their channels last. For feature_reassembly.cu alone.
#pragma once

#include "kernels/channels_last.cuh"
#include "kernels/convert.cuh"
#include "kernels/sampling/feature_reassembly.cuh"

namespace trtsmith {
namespace {

constexpr int32_t kThreads = 256;
constexpr int32_t kPixels = 32;    // of the map, side by side, that a block has
constexpr int32_t kVectors = 8;    // of channels, 16 bytes each, that a block has
constexpr int32_t kTapsEach = 25;  // whose masks are in shared memory at once

static_assert(kPixels * kVectors == kThreads);

// Of maps that are turned, pixels.
constexpr int64_t kLongestSide = int64_t{1} << 30;

struct Arguments {
    FeatureReassemblyParams params;
    FeatureReassemblyShape shape;
    int64_t slices;  // of channels
    int64_t tiles;   // of the output's pixels
    int64_t pieces;
};

// Of the kernel for channels last: blocks are counted with 32 bits.
struct TurnedArguments {
    FeatureReassemblyParams params;
    FeatureReassemblyShape shape;
    const void* turned;  // T [N, H * W, padded]
    int64_t padded;
    int64_t each;         // channels of a group, with the filling of the last one
    FastDivider slices;   // of a group's channels
    FastDivider rows;     // of the map
    FastDivider tiles;    // of a row's pixels
    FastDivider parts;    // of a pixel's outputs
    FastDivider columns;  // of the kernel
    FastDivider scale;
    int32_t pieces;
    bool pairs;  // two elements in an even column of the output can be written at once
};

// Where a block works.
struct Piece {
    int64_t group;  // counted through the images
    int64_t image;
    int32_t row;
    int32_t firstPixel;
    int32_t slice;
    int32_t part;
};

// The quotient; what is left stays in `value`.
__device__ inline int32_t divide(int32_t& value, const FastDivider& divider) {
    const int32_t quotient = divider.quotient(value);
    value -= quotient * static_cast<int32_t>(divider.divisor);
    return quotient;
}

__device__ inline Piece pieceOf(const TurnedArguments& a, int32_t piece) {
    Piece found{};
    found.part = piece;
    found.firstPixel = divide(found.part, a.parts);
    found.row = divide(found.firstPixel, a.tiles);
    found.firstPixel *= kPixels;
    found.slice = divide(found.row, a.rows);
    found.group = divide(found.slice, a.slices);
    found.image = found.group / a.shape.groups;
    return found;
}

// Rows and columns, and those that taps reach, fit 32 bits: kLongestSide.
__device__ inline bool isWithin(int32_t place, int64_t size) {
    return static_cast<uint32_t>(place) < static_cast<uint32_t>(size);
}

// Masks of taps [first, first + count) to shared memory, [count, kPixels, kOutputs], as fp32; zero for taps outside of the
// map, of which nobody may see the masks. Output j of a pixel is number part * kOutputs + j of its scale x scale outputs.
template <typename T, int kOutputs>
__device__ inline void readMasks(const TurnedArguments& a, const Piece& piece, int32_t first, int32_t count,
                                 float* masks) {
    constexpr int32_t kPlaces = kPixels * kOutputs;
    constexpr int32_t kAtOnce = kThreads / kPlaces;  // taps
    static_assert(kThreads % kPlaces == 0, "a thread has one pixel and one output");
    const FeatureReassemblyShape& s = a.shape;
    const int32_t kernel = static_cast<int32_t>(s.kernel);
    const int32_t scale = static_cast<int32_t>(s.scale);
    const int64_t outWidth = s.width * scale;
    const int64_t plane = s.height * scale * outWidth;
    const int32_t thread = static_cast<int32_t>(threadIdx.x);
    const int32_t output = piece.part * kOutputs + thread % kOutputs;
    const int32_t outRow = a.scale.quotient(output);
    const int32_t outColumn = output - outRow * scale;
    const int32_t pixel = piece.firstPixel + thread / kOutputs % kPixels;
    const int64_t channel = piece.group * kernel * kernel + first;
    int64_t place = (channel + thread / kPlaces) * plane + (int64_t{piece.row} * scale + outRow) * outWidth +
                    int64_t{pixel} * scale + outColumn;
    const bool exists = pixel < s.width;
#pragma unroll 4
    for (int32_t tap = thread / kPlaces; tap < count; tap += kAtOnce, place += kAtOnce * plane) {
        const int32_t tapRow = a.columns.quotient(first + tap);
        const int32_t tapColumn = first + tap - tapRow * kernel;
        const bool inside = exists && isWithin(piece.row + tapRow - kernel / 2, s.height) &&
                            isWithin(pixel + tapColumn - kernel / 2, s.width);
        masks[tap * kPlaces + thread % kPlaces] =
            loadFloat(static_cast<const T*>(a.params.masks) + (inside ? place : 0), inside);
    }
}

// A row of the tile, [kPixels, kOutputs], is a channel. Two outputs of a pixel at a time are neighbours in a row of the output.
template <typename T, int kOutputs, int kChannels, int kPitch>
__device__ inline void writeTile(const TurnedArguments& a, const Piece& piece, const T* tile) {
    constexpr int kTogether = kOutputs > 1 ? 2 : 1;
    constexpr int kParts = kOutputs / kTogether;
    constexpr int32_t kAtOnce = kThreads / (kPixels * kParts);  // channels
    using Word = typename WordOf<kTogether* static_cast<int>(sizeof(T))>::type;
    const FeatureReassemblyShape& s = a.shape;
    const int32_t thread = static_cast<int32_t>(threadIdx.x);
    const int32_t inTile = thread % kPixels;
    const int32_t part = thread / kPixels % kParts;
    const int32_t first = thread / (kPixels * kParts);
    const int32_t pixel = piece.firstPixel + inTile;
    const int64_t ofGroup = s.channels / s.groups;
    const int32_t channels = pixel < s.width ? least(ofGroup - int64_t{piece.slice} * kChannels, kChannels) : 0;
    const int32_t scale = static_cast<int32_t>(s.scale);
    const int32_t output = piece.part * kOutputs + part * kTogether;
    const int32_t outRow = a.scale.quotient(output);
    const int64_t outWidth = s.width * scale;
    const int64_t plane = s.height * scale * outWidth;
    T* target = static_cast<T*>(a.params.output) +
                (piece.group * ofGroup + int64_t{piece.slice} * kChannels + first) * plane +
                (int64_t{piece.row} * scale + outRow) * outWidth + int64_t{pixel} * scale + (output - outRow * scale);
    const T* source = tile + first * kPitch + inTile * kOutputs + part * kTogether;
    for (int32_t channel = first; channel < channels; channel += kAtOnce) {
        if (kTogether == 1 || a.pairs) {
            *reinterpret_cast<Word*>(target) = *reinterpret_cast<const Word*>(source);
        } else {
            target[0] = source[0];
            target[1] = source[1];
        }
        target += kAtOnce * plane;
        source += kAtOnce * kPitch;
    }
}

// A thread has a vector of channels of a pixel, and kOutputs of the scale x scale outputs that are made of the same taps, so
// that each load serves kOutputs times. Outputs go through shared memory: neighbouring threads write neighbouring columns.
template <typename T, int kOutputs>
__global__ void __launch_bounds__(kThreads, 3) turnedKernel(const __grid_constant__ TurnedArguments a) {
    constexpr int kVector = 16 / static_cast<int>(sizeof(T));
    constexpr int kChannels = kVectors * kVector;
    constexpr int kPitch = kPixels * kOutputs + 2;
    using Weights = typename WordOf<4 * kOutputs>::type;
    __shared__ __align__(16) float masks[kTapsEach * kPixels * kOutputs];
    __shared__ __align__(16) T tile[kChannels * kPitch];
    const FeatureReassemblyShape& s = a.shape;
    const int32_t thread = static_cast<int32_t>(threadIdx.x);
    const int32_t vector = thread % kVectors;
    const int32_t inTile = thread / kVectors;
    const int32_t kernel = static_cast<int32_t>(s.kernel);
    const int32_t taps = kernel * kernel;
    for (int32_t number = static_cast<int32_t>(blockIdx.x); number < a.pieces;
         number += static_cast<int32_t>(gridDim.x)) {
        const Piece piece = pieceOf(a, number);
        const int64_t inGroup = int64_t{piece.slice} * kChannels + vector * kVector;
        const int32_t pixel = piece.firstPixel + inTile;
        const bool active = inGroup < a.each && pixel < s.width;
        const T* const source =
            static_cast<const T*>(a.turned) + (active ? piece.image * s.height * s.width * a.padded +
                                                            (piece.group - piece.image * s.groups) * a.each + inGroup
                                                      : 0);
        float sums[kVector][kOutputs] = {};
        // The tap's place, which need not exist.
        const int32_t firstColumn = pixel - kernel / 2;
        int32_t tapColumn = 0;
        int32_t row = piece.row - kernel / 2;
        int64_t place = (int64_t{row} * s.width + firstColumn) * a.padded;
        for (int32_t first = 0; first < taps; first += kTapsEach) {
            const int32_t count = taps - first < kTapsEach ? taps - first : kTapsEach;
            __syncthreads();
            readMasks<T, kOutputs>(a, piece, first, count, masks);
            waitForTurning();  // which does not write the masks
            __syncthreads();
#pragma unroll 2
            for (int32_t tap = 0; tap < count; ++tap) {
                const bool valid = active && isWithin(row, s.height) && isWithin(firstColumn + tapColumn, s.width);
                float values[kVector];
                loadFloats(source + (valid ? place : 0), valid, values);
                float weights[kOutputs];
                const auto word = reinterpret_cast<const Weights*>(masks)[tap * kPixels + inTile];
                memcpy(weights, &word, sizeof weights);
#pragma unroll
                for (int v = 0; v < kVector; ++v) {
#pragma unroll
                    for (int j = 0; j < kOutputs; ++j) {
                        sums[v][j] = fmaf(values[v], weights[j], sums[v][j]);
                    }
                }
                place += a.padded;
                if (++tapColumn == kernel) {
                    tapColumn = 0;
                    ++row;
                    place += (s.width - kernel) * a.padded;
                }
            }
        }
#pragma unroll
        for (int v = 0; v < kVector; ++v) {
            T* const target = tile + (vector * kVector + v) * kPitch + inTile * kOutputs;
            if constexpr (kOutputs > 1 && sizeof(T) == 2) {
#pragma unroll
                for (int j = 0; j < kOutputs; j += 2) {
                    const float both[2] = {sums[v][j], sums[v][j + 1]};
                    storeFloats(target + j, both);
                }
            } else {
#pragma unroll
                for (int j = 0; j < kOutputs; ++j) {
                    target[j] = fromFloat<T>(sums[v][j]);
                }
            }
        }
        __syncthreads();
        writeTile<T, kOutputs, kChannels, kPitch>(a, piece, tile);
    }
}

}  // namespace
}  // namespace trtsmith
