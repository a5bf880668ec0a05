// Rows reduced to one row for each index, or into rows that are there, forward. Declaration only: needs neither nvcc nor
// TensorRT. Layouts of torch_scatter's scatter, and of PyTorch's index_add and index_reduce.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"
#include "kernels/reduction/segment_reduction.cuh"

namespace trtsmith {

// Device pointers, row-major, aligned to their element size. T is `type`. A tensor without elements may be null. Outputs
// must not overlap an input or each other.
struct IndexedReductionParams {
    DType type;           // kFloat32, kFloat16 or kBFloat16
    DType indexType;      // kInt32 or kInt64
    Reduction reduction;  // sums are float32; a NaN is passed over by the largest and the smallest
    const void* source;   // T [rows, columns]
    const void* index;    // [rows], the segment of each row; one that does not exist counts as nothing
    void* output;         // T [segments, columns]; zero where a segment has no row
    int64_t*
        origin;      // of kMax and kMin [segments, columns]: the row that a number comes from, the first of several, or
                     // `rows` where there is none; of kSum and kMean [segments]: how many rows there are
    int32_t* count;  // scalar: the largest index and one more, and so many segments are written; null: all are
    const void* data =
        nullptr;  // T [segments, columns]: each row is a segment's first, and a mean's one more. It is the
                  // output where a segment has no row. `origin` and `count` are null then. Null: none
};

struct IndexedReductionShape {
    int64_t rows;  // less than 2^31
    int64_t columns;
    int64_t segments;  // less than 2^31
};

// Bytes of workspace: about 8 for each row and each segment.
size_t indexedReductionWorkspace(const IndexedReductionShape& shape);

// The same in every run: rows of a segment are added in their order.
//
// cudaErrorInvalidValue: a size below 0 or too large, a type that is none, a null pointer to a tensor that has elements, no
// workspace.
cudaError_t indexedReduction(const IndexedReductionParams& params, const IndexedReductionShape& shape, void* workspace,
                             cudaStream_t stream);

}  // namespace trtsmith
