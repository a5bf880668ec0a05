// Sampling of volumes that have their channels last. For volume_sampling.cu alone.
#pragma once

#include "kernels/channels_last.cuh"
#include "kernels/convert.cuh"
#include "kernels/sampling/volume_sampling.cuh"

namespace trtsmith {
namespace {

constexpr int32_t kThreads = 256;
constexpr int32_t kWarp = 32;
constexpr int32_t kTurnedWarps = 4;  // of a block of the kernel for channels last
constexpr int32_t kPoints = 64;      // of each, at a time

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

// From volumes with their channels last. A warp has kPoints points, whose places a lane each finds, and then a lane has a vector of
// channels of a point at a time. The results are turned in shared memory, so that neighbouring lanes write neighbouring points;
// warps do not wait for each other.
// kWhole: all slices are whole.
template <typename T, bool kNearest, bool kWhole>
__global__ void __launch_bounds__(kTurnedWarps* kWarp, 8) turnedKernel(const __grid_constant__ TurnedArguments a) {
    constexpr int kVector = ChannelTile<sizeof(T)>::kVector;
    constexpr int32_t kChannels = ChannelTile<sizeof(T)>::kChannels;
    constexpr int32_t kPitch = kPoints + (sizeof(T) == 2 ? 2 : 1);
    constexpr int kCorners = VolumeCell<kNearest>::kCorners;
    __shared__ __align__(4) T tiles[kTurnedWarps][kChannels * kPitch];
    const VolumeSamplingShape& s = a.plain.shape;
    const int32_t lane = static_cast<int32_t>(threadIdx.x) % kWarp;
    const int32_t warp = static_cast<int32_t>(threadIdx.x) / kWarp;
    T* const tile = tiles[warp];
    const int32_t piece = static_cast<int32_t>(blockIdx.x) * kTurnedWarps + warp;
    if (piece >= a.plain.pieces) {
        return;
    }
    const int32_t rest = a.plain.slices.quotient(piece);
    const int32_t slice = piece - rest * static_cast<int32_t>(a.plain.slices.divisor);
    const int32_t image = a.plain.tiles.quotient(rest);
    const int64_t firstPoint = int64_t{rest - image * static_cast<int32_t>(a.plain.tiles.divisor)} * kPoints;
    const int32_t points = least(s.points - firstPoint, kPoints);
    const int32_t groups = kWhole ? kChannels / kVector : 1 << a.groupShift;
    const int32_t group = lane & (groups - 1);
    const int32_t other = kWhole ? lane / (kChannels / kVector) : lane >> a.groupShift;
    const int32_t vector = slice * (kChannels / kVector) + group;
    const uint4* const volume = a.turned + image * s.depth * a.slab + vector;
    for (int32_t found = 0; found < kPoints; found += kWarp) {
        VolumePlace places[3] = {};
        if (found + lane < points) {
#pragma unroll
            for (int32_t axis = 0; axis < 3; ++axis) {
                places[axis] = placeOf<T, kNearest>(a.plain, image * s.points + firstPoint + found + lane, axis);
            }
        }
        const int32_t first = places[2].low * a.slab + places[1].low * a.row + places[0].low * a.vectors;
        const uint32_t exists = places[0].exists | places[1].exists << 2 | places[2].exists << 4;
        waitForTurning();  // which does not write the grid
#pragma unroll 1
        for (int32_t step = 0; step < kWarp; step += kWhole ? kWarp * kVector / kChannels : kWarp >> a.groupShift) {
            const int32_t from = step + other;
            const int32_t corner = __shfl_sync(0xFFFFFFFFU, first, from);
            const uint32_t bits = __shfl_sync(0xFFFFFFFFU, exists, from);
            float parts[3];
#pragma unroll
            for (int axis = 0; axis < 3; ++axis) {
                parts[axis] = __shfl_sync(0xFFFFFFFFU, places[axis].part, from);
            }
            uint4 words[kCorners];
#pragma unroll
            for (int i = 0; i < kCorners; ++i) {
                const int32_t further = (i & 1) * a.vectors + (i >> 1 & 1) * a.row + (i >> 2) * a.slab;
                words[i] = uint4{0U, 0U, 0U, 0U};
                if ((kWhole || vector < a.vectors) &&
                    (bits >> (i & 1) & bits >> (2 + (i >> 1 & 1)) & bits >> (4 + (i >> 2)) & 1U) != 0U) {
                    words[i] = __ldg(volume + (corner + further));
                }
            }
            float sums[kVector] = {};
#pragma unroll
            for (int i = 0; i < kCorners; ++i) {
                const float weight = volumeWeight(i, parts);
                T elements[kVector];
                memcpy(static_cast<void*>(elements), &words[i], sizeof words[i]);
#pragma unroll
                for (int v = 0; v < kVector; ++v) {
                    sums[v] = fmaf(weight, toFloat(elements[v]), sums[v]);
                }
            }
#pragma unroll
            for (int v = 0; v < kVector; ++v) {
                tile[(group * kVector + v) * kPitch + found + from] = fromFloat<T>(sums[v]);
            }
        }
    }
    __syncwarp();
    const int32_t rows = kWhole ? kChannels : least(s.channels - slice * kChannels, kChannels);
    T* target =
        static_cast<T*>(a.plain.params.output) + (image * s.channels + slice * kChannels) * s.points + firstPoint;
    for (int32_t row = 0; row < rows; ++row, target += s.points) {
        const T* const source = tile + row * kPitch;
        if (sizeof(T) == 2 && a.pairs) {
            if (2 * lane < points) {
                reinterpret_cast<uint32_t*>(target)[lane] = reinterpret_cast<const uint32_t*>(source)[lane];
            }
        } else {
            for (int32_t point = lane; point < points; point += kWarp) {
                target[point] = source[point];
            }
        }
    }
}

}  // namespace
}  // namespace trtsmith
