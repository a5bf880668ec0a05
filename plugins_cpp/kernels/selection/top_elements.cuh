// The largest or smallest elements along an axis, in order: ONNX's TopK. Declaration only: needs neither nvcc nor TensorRT.
//
// Method: a row is what lies along the axis. Rows that fit into shared memory are sorted there, by a radix sort of one block.
// Of longer ones the elements that are wanted are found by a radix select of all blocks, gathered in the order of their
// places, and sorted likewise. Where more are wanted than fit, and for elements of 64 bits, all are sorted by merging.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"

namespace trtsmith {

struct TopElementsShape {
    int64_t outer;
    int64_t size;   // of the axis, below 2^31
    int64_t inner;  // outer * inner is below 2^31
    int64_t count;  // elements that are wanted of each row, at most `size`
};

// Device pointers, row-major, aligned to their element size; they may be null where a tensor is empty. Outputs must overlap
// nothing.
struct TopElementsParams {
    DType type;
    bool largest;      // else the smallest
    const void* x;     // [outer, size, inner]
    void* values;      // [outer, count, inner]
    int64_t* indices;  // [outer, count, inner]: places along the axis
};

// Bytes of device memory that topElements needs as `workspace`.
size_t topElementsWorkspace(DType type, const TopElementsShape& shape);

// Enqueues on `stream`; `workspace` is aligned to 16 bytes. Of equal elements the one with the lower index comes first. NaNs
// are equal and above everything. Returns cudaErrorInvalidValue for a negative or overflowing size, a count above the size, or
// a null pointer that is needed; otherwise the error of the launches.
cudaError_t topElements(const TopElementsParams& params, const TopElementsShape& shape, void* workspace,
                        cudaStream_t stream);

}  // namespace trtsmith
