// The state of voxel generation, and its last step: a warp writes a voxel's row of numbers.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/bev/voxel_generation.cuh"
#include "kernels/convert.cuh"
#include "kernels/dispatch.cuh"
#include "kernels/fast_division.cuh"
#include "kernels/warp.cuh"

namespace trtsmith {
namespace voxel_generation {

constexpr int32_t kThreads = 256;
constexpr uint32_t kNone = 0xffffffffu;

// A cell that has points, and the smallest number of them; later the cell's own number in place of the cell.
struct alignas(8) Slot {
    uint32_t cell;
    uint32_t first;
};

struct Arguments {
    VoxelGenerationParams params;
    VoxelGenerationShape shape;
    float grid[3];
    int64_t cellsX;
    int64_t cellsY;
    int64_t allPoints;  // of all frames
    int32_t bits;       // a frame's part of the table has 2^bits slots
    Slot* table;
    uint32_t* lists;  // [frames, maxVoxels, maxPoints], the points of each voxel in order, kNone behind the last
    int64_t* starts;  // [frames + 1], how many voxels the frames before have
    int32_t* slots;   // [frames, points], or -1
    void* tiles;
    FastDivider byPoints;
    FastDivider byFeatures;
};

// The cell of a position, x first; false outside. One rounding a step, as NVIDIA's kernel has it, so that everyone decides
// alike; a position that is no number is not below any end.
__device__ inline bool placeOf(const Arguments& a, const float (&position)[3], int32_t (&place)[3]) {
    bool inside = true;
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) {
        const float steps = floorf(__fdiv_rn(__fsub_rn(position[axis], a.shape.low[axis]), a.shape.size[axis]));
        const bool flat = axis == 2 && a.shape.pillars;
        inside = inside && position[axis] >= a.shape.low[axis] && position[axis] < a.shape.high[axis];
        inside = inside && (flat || steps < a.grid[axis]);
        place[axis] = inside && !flat ? static_cast<int32_t>(steps) : 0;
    }
    return inside;
}

__device__ inline float pick(int32_t axis, float x, float y, float z) { return axis == 0 ? x : (axis == 1 ? y : z); }

// What a voxel's numbers are made of. The mean is kept from the first point on, in which it is small: subtracted from a
// position of 70 m as it is, it would lose most of its digits.
struct Voxel {
    const uint32_t* list;
    int32_t points;
    float first[3];
    float mean[3];
    float centre[3];
};

template <typename T>
__device__ float numberOf(const Arguments& a, const Voxel& voxel, const T* frame, int32_t at) {
    const int32_t k = a.byFeatures.quotient(at);
    const int32_t column = at - k * static_cast<int32_t>(a.byFeatures.divisor);
    const int32_t width = static_cast<int32_t>(a.shape.width);
    const T* const point = frame + static_cast<int64_t>(voxel.list[k]) * width;
    if (column < width) {
        return loadFloat(point + column);
    }
    const bool fromMean = column - width < 3;
    const int32_t axis = column - width - (fromMean ? 0 : 3);
    const float position = loadFloat(point + axis);
    const float first = pick(axis, voxel.first[0], voxel.first[1], voxel.first[2]);
    return fromMean ? (position - first) - pick(axis, voxel.mean[0], voxel.mean[1], voxel.mean[2])
                    : position - pick(axis, voxel.centre[0], voxel.centre[1], voxel.centre[2]);
}

template <typename T, int kVector>
__global__ void __launch_bounds__(kThreads) writeKernel(const __grid_constant__ Arguments a) {
    const VoxelGenerationShape& s = a.shape;
    const int32_t lane = static_cast<int32_t>(threadIdx.x) % kWarp;
    const int64_t rows = s.frames * s.maxVoxels;
    const int64_t warps = int64_t{gridDim.x} * (kThreads / kWarp);
    for (int64_t row = (int64_t{blockIdx.x} * kThreads + threadIdx.x) / kWarp; row < rows; row += warps) {
        const int64_t frame = row / s.maxVoxels;
        const int64_t number = row - frame * s.maxVoxels;
        const int64_t found = a.starts[frame + 1] - a.starts[frame];
        const T* const points = static_cast<const T*>(a.params.points) + frame * s.points * s.width;
        Voxel voxel{a.lists + row * s.maxPoints, 0, {}, {}, {}};
        int32_t place[3] = {};
        if (number < found) {
            for (int64_t k = lane; k - lane < s.maxPoints; k += kWarp) {
                voxel.points += __popc(__ballot_sync(kAllLanes, k < s.maxPoints && voxel.list[k] != kNone));
            }
            const T* const first = points + static_cast<int64_t>(voxel.list[0]) * s.width;
#pragma unroll
            for (int axis = 0; axis < 3; ++axis) {
                voxel.first[axis] = loadFloat(first + axis);
            }
            placeOf(a, voxel.first, place);
            for (int32_t k = lane; k < voxel.points; k += kWarp) {
                const T* const point = points + static_cast<int64_t>(voxel.list[k]) * s.width;
#pragma unroll
                for (int axis = 0; axis < 3; ++axis) {
                    voxel.mean[axis] += loadFloat(point + axis) - voxel.first[axis];
                }
            }
#pragma unroll
            for (int axis = 0; axis < 3; ++axis) {
                voxel.mean[axis] = warpSum(voxel.mean[axis]) / static_cast<float>(voxel.points);
                voxel.centre[axis] = s.low[axis] + (static_cast<float>(place[axis]) + 0.5F) * s.size[axis];
            }
        }
        const int32_t length = static_cast<int32_t>(s.maxPoints * s.features);
        const int32_t used = voxel.points * static_cast<int32_t>(s.features);
        T* const target = static_cast<T*>(a.params.voxels) + row * length;
        for (int64_t at = lane * kVector; at < length; at += kWarp * kVector) {
            float values[kVector];
#pragma unroll
            for (int v = 0; v < kVector; ++v) {
                const int32_t element = static_cast<int32_t>(at) + v;
                values[v] = element < used ? numberOf(a, voxel, points, element) : 0.0F;
            }
            storeFloats<kVector>(target + at, values);
        }
        if (lane < 4) {
            a.params.coords[4 * row + lane] =
                lane == 0 ? 0 : (lane == 1 ? place[2] : (lane == 2 ? place[1] : place[0]));
        }
        if (lane == 0) {
            a.params.pointCounts[row] = voxel.points;
            if (number == 0) {
                a.params.voxelCounts[frame] = static_cast<int32_t>(found < s.maxVoxels ? found : s.maxVoxels);
            }
        }
    }
}

template <typename T>
cudaError_t writeVoxels(const Arguments& a, cudaStream_t stream) {
    constexpr int kVector = 16 / static_cast<int>(sizeof(T));
    const VoxelGenerationShape& s = a.shape;
    const unsigned int blocks = gridBlocks(ceilDivide(s.frames * s.maxVoxels, kThreads / kWarp));
    const bool wide = s.maxPoints * s.features % kVector == 0 && isAligned(a.params.voxels, 16);
    return wide ? launch(writeKernel<T, kVector>, blocks, kThreads, 0, stream, a)
                : launch(writeKernel<T, 1>, blocks, kThreads, 0, stream, a);
}

}  // namespace voxel_generation
}  // namespace trtsmith
