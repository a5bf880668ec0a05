// Features of pillars laid out on the grid that they come from, forward. Declaration only: needs neither nvcc nor
// TensorRT. Layouts of NVIDIA's PillarScatterPlugin.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"

namespace trtsmith {

// Device pointers, row-major, aligned to their element size. T is `type`. A tensor without elements may be null. The
// output must not overlap an input.
struct PillarScatterParams {
    DType type;                // kFloat32, kFloat16 or kBFloat16
    const void* features;      // T [frames, pillars, channels]
    const int32_t* positions;  // [frames, pillars, 4], of which the last two are row and column
    const int32_t* counts;     // [frames], how many of the pillars count
    void* output;              // T [frames, channels, height, width]
};

struct PillarScatterShape {
    int64_t frames;
    int64_t pillars;  // less than 2^31
    int64_t channels;
    int64_t height;
    int64_t width;
};

// Bytes of workspace: a number for each cell of all frames.
size_t pillarScatterWorkspace(const PillarScatterShape& shape);

// Every element is written: cells without a pillar are zero, and of several pillars of a cell the last counts. Pillars
// behind the frame's number are not read, and one outside of the grid counts as nothing. Values are moved as they are.
//
// cudaErrorInvalidValue: a size below 0, too many pillars, a null pointer to a tensor that has elements, or no workspace.
cudaError_t pillarScatter(const PillarScatterParams& params, const PillarScatterShape& shape, void* workspace,
                          cudaStream_t stream);

}  // namespace trtsmith
