// Sampling of volumes at points, forward: GridSample of ONNX in three dimensions. Declaration only: needs neither nvcc nor
// TensorRT.
//
// Formula: Jaderberg et al., "Spatial Transformer Networks" (arXiv 1506.02025), section 3.3, with the numerics of PyTorch's
// grid_sample.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"
#include "kernels/sampling/volume_sampling_cell.cuh"

namespace trtsmith {

// Device pointers, row-major, aligned to their element size. T is `type`. A tensor without elements may be null. The
// output must not overlap an input.
struct VolumeSamplingParams {
    DType type;        // kFloat32, kFloat16 or kBFloat16; positions and sums are fp32 for all three
    const void* x;     // T [N, C, D, H, W]
    const void* grid;  // T [N, points, 3], (x, y, z) from -1 to 1
    void* output;      // T [N, C, points]
};

struct VolumeSamplingShape {
    int64_t batch;
    int64_t channels;
    int64_t depth;  // it, height and width less than 2^31
    int64_t height;
    int64_t width;
    int64_t points;
    bool nearest;  // or else linear
    VolumePadding padding;
    bool aligned;  // -1 and 1 are the middles of the outer voxels
};

// Bytes of workspace: the volumes with their channels last, where they are turned first.
size_t volumeSamplingWorkspace(DType type, const VolumeSamplingShape& shape);

// A point whose position is NaN reads nothing where zeros are beyond, and otherwise lies at the first voxel along that axis,
// as does an infinite one that is reflected.
//
// cudaErrorInvalidValue: a size below 0 or too large, a null pointer to a tensor that has elements, or no workspace where
// some is needed.
cudaError_t volumeSampling(const VolumeSamplingParams& params, const VolumeSamplingShape& shape, void* workspace,
                           cudaStream_t stream);

}  // namespace trtsmith
