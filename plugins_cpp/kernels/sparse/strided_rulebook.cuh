// The rulebook of a sparse convolution with strides. Declaration only: needs neither nvcc nor TensorRT.
//
// Method: a bit for every cell of the output says whether it is reached; counting the bits before it gives a cell's row, so
// that rows come out in the order of cells without sorting. Then each row writes itself where its taps are.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace trtsmith {

// Device pointers, row-major, aligned to their element size; null when there can be no element. The outputs are packed by
// the number of rows that is found.
struct StridedRulebookParams {
    const int32_t* indices;  // [rows, 4] (batch, z, y, x), any numbers
    int32_t* outputIndices;  // [count, 4]
    int32_t* pairs;          // [taps, count]
    int32_t* count;          // scalar
};

struct StridedRulebookShape {
    int64_t rows;  // less than 2^31
    int64_t batch;
    std::array<int64_t, 3> grid;    // cells of the input along (z, y, x), batch * grid at most 2^62
    std::array<int64_t, 3> out;     // cells of the output, batch * out at most 2^34
    std::array<int64_t, 3> kernel;  // at most 2^15 taps
    std::array<int64_t, 3> stride;  // each less than 2^31, as padding and dilation
    std::array<int64_t, 3> padding;
    std::array<int64_t, 3> dilation;
    int64_t limit;  // rows of the output at most, 1 to 2^31 - 1: the outputs have room for them
};

// Bytes of workspace, aligned to 8: 1.5 bits for each cell of the output.
size_t stridedRulebookWorkspace(const StridedRulebookShape& shape);

// The cells of the output that a tap of the kernel connects with a row inside of the grid, in the order (batch, z, y, x), the
// first `limit` of them; and pairs[k, j], the first row that tap k reads for the cell j, or -1.
//
// cudaErrorInvalidValue: a size out of range, or a null pointer to a tensor that has elements, or no workspace.
cudaError_t stridedRulebook(const StridedRulebookParams& params, const StridedRulebookShape& shape, void* workspace,
                            cudaStream_t stream);

}  // namespace trtsmith
