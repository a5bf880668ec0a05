// Rows of consecutive segments reduced to one row each, forward. Declaration only: needs neither nvcc nor TensorRT. Layouts
// of torch_scatter's segment_csr.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"

namespace trtsmith {

enum class Reduction : int32_t { kSum, kMean, kMax, kMin };

// Device pointers, row-major, aligned to their element size. T is `type`. A tensor without elements may be null. The output
// must not overlap an input.
struct SegmentReductionParams {
    DType type;           // kFloat32, kFloat16 or kBFloat16
    DType offsetType;     // kInt32 or kInt64
    Reduction reduction;  // sums are float32; a NaN is passed over by the largest and the smallest
    const void* source;   // T [rows, columns]
    const void* offsets;  // [segments + 1]: segment i has the rows from offset i to the one before offset i + 1
    void* output;         // T [segments, columns]; zero where a segment has no row
};

struct SegmentReductionShape {
    int64_t rows;  // less than 2^31
    int64_t columns;
    int64_t segments;
};

// Bytes of workspace: results of parts, where there are few and long segments.
size_t segmentReductionWorkspace(const SegmentReductionShape& shape);

// Offsets below 0 count as 0, those above the number of rows as that. Every element is written, and the same in every run.
//
// cudaErrorInvalidValue: a size below 0 or too large, a type that is none, a null pointer to a tensor that has elements, no
// workspace where there is to be one.
cudaError_t segmentReduction(const SegmentReductionParams& params, const SegmentReductionShape& shape, void* workspace,
                             cudaStream_t stream);

}  // namespace trtsmith
