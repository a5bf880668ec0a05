// The rulebook of a submanifold convolution. Declaration only: needs neither nvcc nor TensorRT.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace trtsmith {

// Device pointers, row-major, aligned to their element size; null when there is no element.
struct SubmanifoldRulebookParams {
    const int32_t* indices;  // [rows, 4] (batch, z, y, x), any numbers
    int32_t* pairs;          // [taps, rows]
};

struct SubmanifoldRulebookShape {
    int64_t rows;  // less than 2^31
    int64_t batch;
    std::array<int64_t, 3> grid;      // cells along (z, y, x), batch * grid at most 2^62
    std::array<int64_t, 3> kernel;    // odd, at most 2^15 taps
    std::array<int64_t, 3> dilation;  // each less than 2^31
};

// Bytes of workspace: a table of at least twice as many rows.
size_t submanifoldRulebookWorkspace(const SubmanifoldRulebookShape& shape);

// pairs[k, i] is the first row whose cell lies where tap k of the kernel around the cell of row i reads, or -1. Rows outside
// of the grid have no pairs and are nobody's. The result does not depend on the order in which threads run.
//
// cudaErrorInvalidValue: a size out of range, or a null pointer to a tensor that has elements, or no workspace.
cudaError_t submanifoldRulebook(const SubmanifoldRulebookParams& params, const SubmanifoldRulebookShape& shape,
                                void* workspace, cudaStream_t stream);

}  // namespace trtsmith
