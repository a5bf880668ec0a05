// Content-aware reassembly of features from maps with their channels last. For feature_reassembly.cu alone.
#pragma once

#include "kernels/convert.cuh"
#include "kernels/sampling/channels_last.cuh"
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
    const void* turned;  // T [N, H * W, padded]
    int64_t padded;
    int64_t each;    // channels of a group, with the filling of the last one
    int64_t slices;  // of a group's channels
    int64_t tiles;   // of a row's pixels
    int64_t parts;   // of a pixel's outputs
    int64_t pieces;
    bool pairs;  // two elements in an even column of the output can be written at once
};

// Where a block works.
struct Piece {
    int64_t image;
    int64_t row;
    int64_t firstPixel;
    int64_t group;
    int64_t slice;
    int32_t part;
};

__device__ inline Piece pieceOf(const Arguments& a, int64_t piece) {
    Piece found{};
    int64_t rest = piece / a.parts;
    found.part = static_cast<int32_t>(piece - rest * a.parts);
    int64_t next = rest / a.tiles;
    found.firstPixel = (rest - next * a.tiles) * kPixels;
    rest = next / a.shape.height;
    found.row = next - rest * a.shape.height;
    next = rest / a.slices;
    const int64_t slice = rest - next * a.slices;
    found.image = next / a.shape.groups;
    found.group = next - found.image * a.shape.groups;
    found.slice = slice;
    return found;
}

// Rows and columns, and those that taps reach, fit 32 bits: kLongestSide.
__device__ inline bool isWithin(int32_t place, int64_t size) {
    return static_cast<uint32_t>(place) < static_cast<uint32_t>(size);
}

// Masks of taps [first, first + count) to shared memory, [count, kPixels, kOutputs], as fp32; zero for taps outside of the
// map, of which nobody may see the masks. Output j of a pixel is number part * kOutputs + j of its scale x scale outputs.
template <typename T, int kOutputs>
__device__ inline void readMasks(const Arguments& a, const Piece& piece, int32_t first, int32_t count, float* masks) {
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
    const int32_t outRow = output / scale;
    const int32_t outColumn = output - outRow * scale;
    const int32_t pixel = static_cast<int32_t>(piece.firstPixel) + thread / kOutputs % kPixels;
    const int64_t channel = (piece.image * s.groups + piece.group) * kernel * kernel + first;
    int64_t place = (channel + thread / kPlaces) * plane + (piece.row * scale + outRow) * outWidth +
                    int64_t{pixel} * scale + outColumn;
    const bool exists = pixel < s.width;
#pragma unroll 4
    for (int32_t tap = thread / kPlaces; tap < count; tap += kAtOnce, place += kAtOnce * plane) {
        const int32_t tapRow = (first + tap) / kernel;
        const int32_t tapColumn = first + tap - tapRow * kernel;
        const bool inside = exists && isWithin(static_cast<int32_t>(piece.row) + tapRow - kernel / 2, s.height) &&
                            isWithin(pixel + tapColumn - kernel / 2, s.width);
        masks[tap * kPlaces + thread % kPlaces] =
            loadFloat(static_cast<const T*>(a.params.masks) + (inside ? place : 0), inside);
    }
}

// A row of the tile, [kPixels, kOutputs], is a channel. Two outputs of a pixel at a time are neighbours in a row of the output.
template <typename T, int kOutputs, int kChannels, int kPitch>
__device__ inline void writeTile(const Arguments& a, const Piece& piece, const T* tile) {
    constexpr int kTogether = kOutputs > 1 ? 2 : 1;
    constexpr int kParts = kOutputs / kTogether;
    using Word = typename WordOf<kTogether* static_cast<int>(sizeof(T))>::type;
    const FeatureReassemblyShape& s = a.shape;
    const int64_t ofGroup = s.channels / s.groups;
    const int64_t outWidth = s.width * s.scale;
    const int32_t scale = static_cast<int32_t>(s.scale);
    for (int32_t item = static_cast<int32_t>(threadIdx.x); item < kChannels * kParts * kPixels; item += kThreads) {
        const int32_t inTile = item % kPixels;
        const int32_t part = item / kPixels % kParts;
        const int32_t channel = item / (kPixels * kParts);
        const int64_t inGroup = piece.slice * kChannels + channel;
        const int64_t pixel = piece.firstPixel + inTile;
        if (inGroup >= ofGroup || pixel >= s.width) {
            continue;
        }
        const int32_t output = piece.part * kOutputs + part * kTogether;
        const int32_t outRow = output / scale;
        const int64_t plane = (piece.image * s.groups + piece.group) * ofGroup + inGroup;
        const int64_t row = (plane * s.height + piece.row) * scale + outRow;
        T* const target = static_cast<T*>(a.params.output) + row * outWidth + pixel * scale + (output - outRow * scale);
        const T* const source = tile + channel * kPitch + inTile * kOutputs + part * kTogether;
        if (kTogether == 1 || a.pairs) {
            *reinterpret_cast<Word*>(target) = *reinterpret_cast<const Word*>(source);
        } else {
            target[0] = source[0];
            target[1] = source[1];
        }
    }
}

// A thread has a vector of channels of a pixel, and kOutputs of the scale x scale outputs that are made of the same taps, so
// that each load serves kOutputs times. Outputs go through shared memory: neighbouring threads write neighbouring columns.
template <typename T, int kOutputs>
__global__ void __launch_bounds__(kThreads, 3) turnedKernel(const __grid_constant__ Arguments a) {
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
    for (int64_t number = blockIdx.x; number < a.pieces; number += gridDim.x) {
        const Piece piece = pieceOf(a, number);
        const int64_t inGroup = piece.slice * kChannels + vector * kVector;
        const int64_t pixel = piece.firstPixel + inTile;
        const bool active = inGroup < a.each && pixel < s.width;
        const T* const source =
            static_cast<const T*>(a.turned) +
            (active ? piece.image * s.height * s.width * a.padded + piece.group * a.each + inGroup : 0);
        float sums[kVector][kOutputs] = {};
        // The tap's place, which need not exist.
        const int32_t firstColumn = static_cast<int32_t>(pixel) - kernel / 2;
        int32_t tapColumn = 0;
        int32_t row = static_cast<int32_t>(piece.row) - kernel / 2;
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
