// Points of LiDAR frames sorted into the cells of a grid, forward. Declaration only: needs neither nvcc nor TensorRT.
// Layouts of NVIDIA's VoxelGeneratorPlugin and of mmcv's hard voxelization.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"

namespace trtsmith {

// Device pointers, row-major, aligned to their element size. T is `type`. A tensor without elements may be null. Outputs
// must not overlap an input or each other.
struct VoxelGenerationParams {
    DType type;             // kFloat32, kFloat16 or kBFloat16
    const void* points;     // T [frames, points, width], of which the first three are x, y and z
    const int32_t* counts;  // [frames], how many of the points count
    void* voxels;           // T [frames, maxVoxels, maxPoints, features]
    int32_t* coords;        // [frames, maxVoxels, 4]: 0, z, y and x of the cell
    int32_t* pointCounts;   // [frames, maxVoxels], the points that a voxel holds
    int32_t* voxelCounts;   // [frames]
};

struct VoxelGenerationShape {
    int64_t frames;
    int64_t points;  // of a frame; of all frames at most 2^30
    int64_t width;
    int64_t maxVoxels;
    int64_t maxPoints;
    int64_t features;  // of the width + 6 numbers of a point; of a voxel less than 2^31
    float low[3];      // along x, y, z; included
    float high[3];     // excluded
    float size[3];     // of a cell
    bool pillars;      // whether cells are not divided along z
};

// Cells along x, y and z into `grid`; false where a size is not above 0, or there is no cell, or 2^31 of them.
bool voxelGrid(const VoxelGenerationShape& shape, float (&grid)[3]);

// Bytes of workspace: a table of the cells that have points, and the points of each voxel.
size_t voxelGenerationWorkspace(const VoxelGenerationShape& shape);

// Voxels come in the order of their first points, points of a voxel in their own; what is too much of either is left out.
// A point counts if it is among the frame's first `counts`, and in [low, high) along each axis. Every element is written;
// what holds no point is zero. The result is the same in every run.
//
// cudaErrorInvalidValue: a size below 0 or too large, no grid, a null pointer to a tensor that has elements, no workspace.
cudaError_t voxelGeneration(const VoxelGenerationParams& params, const VoxelGenerationShape& shape, void* workspace,
                            cudaStream_t stream);

}  // namespace trtsmith
