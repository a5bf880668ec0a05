// Sampling of volumes that have their channels last. For volume_sampling.cu alone.
#pragma once

#include "kernels/convert.cuh"
#include "kernels/sampling/channels_last.cuh"
#include "kernels/sampling/volume_sampling.cuh"

namespace trtsmith {
namespace {

constexpr int32_t kThreads = 256;
constexpr int32_t kWarp = 32;

struct Arguments {
    VolumeSamplingParams params;
    VolumeSamplingShape shape;
    FastDivider slices;  // of channels
    FastDivider tiles;   // of points
    int32_t pieces;
};

// Of the kernel for channels last. Vectors, 16 bytes of a voxel's channels, are counted with 32 bits.
struct TurnedArguments {
    Arguments plain;
    const uint4* turned;  // [N, voxels, vectors]
    int32_t vectors;
    int32_t row;         // vectors of a row of the volume
    int32_t slab;        // and of a slab
    int32_t groupShift;  // log2 of the vectors of a point in a slice
    bool pairs;          // of 2-byte elements: rows of the output begin at multiples of 4 bytes
};

// Where a point, counted through the images, lies along an axis: 0 is x, 1 is y, 2 is z.
template <typename T, bool kNearest>
__device__ inline VolumePlace placeOf(const Arguments& a, int64_t point, int32_t axis) {
    const VolumeSamplingShape& s = a.shape;
    const int32_t size = static_cast<int32_t>(axis == 0 ? s.width : axis == 1 ? s.height : s.depth);
    const float given = loadFloat(static_cast<const T*>(a.params.grid) + point * 3 + axis);
    return volumePlace<kNearest>(paddedPosition(given, size, s.padding, s.aligned), size);
}

template <bool kNearest>
__device__ inline VolumeCell<kNearest> cellOf(const Arguments& a, const VolumePlace (&places)[3]) {
    return volumeCell<kNearest>(places[0], places[1], places[2], static_cast<int32_t>(a.shape.height),
                                static_cast<int32_t>(a.shape.width));
}

// The sums of a point's vector of channels over the voxels around it. volume: the vector of voxel 0.
template <typename T, bool kNearest, int kVector>
__device__ inline void sampleVector(const TurnedArguments& a, const VolumePlace (&places)[3], const uint4* volume,
                                    float (&sums)[kVector]) {
    using Cell = VolumeCell<kNearest>;
    const Cell cell = cellOf<kNearest>(a.plain, places);
    const int32_t first = places[2].low * a.slab + places[1].low * a.row + places[0].low * a.vectors;
    uint4 words[Cell::kCorners];
#pragma unroll
    for (int i = 0; i < Cell::kCorners; ++i) {
        const int32_t further = (i & 1) * a.vectors + ((i >> 1) & 1) * a.row + (i >> 2) * a.slab;
        words[i] = uint4{0U, 0U, 0U, 0U};
        if ((cell.exists >> i & 1U) != 0U) {
            words[i] = __ldg(volume + (first + further));
        }
    }
#pragma unroll
    for (int i = 0; i < Cell::kCorners; ++i) {
        T elements[kVector];
        memcpy(static_cast<void*>(elements), &words[i], sizeof words[i]);
#pragma unroll
        for (int v = 0; v < kVector; ++v) {
            sums[v] = fmaf(cell.weights[i], toFloat(elements[v]), sums[v]);
        }
    }
}

// From volumes with their channels last. A thread has one vector of channels of a point; the tile of 64 points is turned in
// shared memory, so that neighbouring threads write neighbouring points.
template <typename T, bool kNearest>
__global__ void __launch_bounds__(kThreads, 4) turnedKernel(const __grid_constant__ TurnedArguments a) {
    using Tile = ChannelTile<sizeof(T)>;
    constexpr int kVector = Tile::kVector;
    constexpr int32_t kWarps = kThreads / kWarp;
    __shared__ __align__(16) T tile[Tile::kElements];
    __shared__ VolumePlace places[Tile::kPlaces * 3];
    static_assert(Tile::kPlaces * 3 <= kThreads);
    const VolumeSamplingShape& s = a.plain.shape;
    const int32_t thread = static_cast<int32_t>(threadIdx.x);
    const int32_t lane = thread % kWarp;
    const int32_t group = thread & ((1 << a.groupShift) - 1);
    for (int32_t piece = static_cast<int32_t>(blockIdx.x); piece < a.plain.pieces;
         piece += static_cast<int32_t>(gridDim.x)) {
        const int32_t rest = a.plain.slices.quotient(piece);
        const int32_t slice = piece - rest * static_cast<int32_t>(a.plain.slices.divisor);
        const int32_t image = a.plain.tiles.quotient(rest);
        const int64_t firstPoint = int64_t{rest - image * static_cast<int32_t>(a.plain.tiles.divisor)} * Tile::kPlaces;
        const int32_t points = least(s.points - firstPoint, Tile::kPlaces);
        // A thread finds a point's place along one axis, for all of the point's vectors.
        if (thread < points * 3) {
            places[thread] = placeOf<T, kNearest>(a.plain, image * s.points + firstPoint + thread / 3, thread % 3);
        }
        waitForTurning();  // which does not write the grid
        __syncthreads();
        const int32_t vector = slice * Tile::kGroups + group;
        const uint4* const volume = a.turned + image * s.depth * a.slab + vector;
        const int32_t most = vector < a.vectors ? points : 0;
        for (int32_t point = thread >> a.groupShift; point < most; point += kThreads >> a.groupShift) {
            const VolumePlace found[3] = {places[3 * point], places[3 * point + 1], places[3 * point + 2]};
            float sums[kVector] = {};
            sampleVector<T, kNearest>(a, found, volume, sums);
#pragma unroll
            for (int v = 0; v < kVector; ++v) {
                tile[(group * kVector + v) * Tile::kPitch + point] = fromFloat<T>(sums[v]);
            }
        }
        __syncthreads();
        const int32_t rows = least(s.channels - slice * Tile::kChannels, Tile::kChannels);
        const int32_t warp = thread / kWarp;
        T* target = static_cast<T*>(a.plain.params.output) +
                    (image * s.channels + slice * Tile::kChannels + warp) * s.points + firstPoint;
        for (int32_t row = warp; row < rows; row += kWarps, target += kWarps * s.points) {
            const T* const source = tile + row * Tile::kPitch;
            if (sizeof(T) == 2 && a.pairs) {
                if (2 * lane < points) {
                    reinterpret_cast<uint32_t*>(target)[lane] = reinterpret_cast<const uint32_t*>(source)[lane];
                }
            } else {
                if (lane < points) {
                    target[lane] = source[lane];
                }
                if (lane + kWarp < points) {
                    target[lane + kWarp] = source[lane + kWarp];
                }
            }
        }
    }
}

}  // namespace
}  // namespace trtsmith
