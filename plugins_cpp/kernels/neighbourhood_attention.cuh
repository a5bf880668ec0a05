// Attention of places to their neighbours, forward. Declaration only: needs neither nvcc nor TensorRT. NATTEN's na1d, na2d
// and na3d.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/dtype.hpp"

namespace trtsmith {

// Device pointers to T [batch, length x 3, heads, width], row-major, aligned to their element size. T is `type`. A tensor
// without elements may be null. The output may overlap no input.
struct NeighbourhoodAttentionParams {
    DType type;  // kFloat32, kFloat16 or kBFloat16
    const void* q;
    const void* k;
    const void* v;
    void* output;
    float scale;  // of scores
};

struct NeighbourhoodAxis {
    int64_t length;
    int64_t kernel;
    int64_t stride;
    int64_t dilation;
    bool causal;
};

struct NeighbourhoodAttentionShape {
    int64_t batch;
    NeighbourhoodAxis axes[3];
    int64_t heads;
    int64_t width;
};

// Every element of the output is written. Sums are float32; with 16 bits, shares are rounded to T before they weigh values.
//
// cudaErrorInvalidValue: a size below 0 or too large, a null pointer to a tensor that has elements; along an axis a kernel,
// stride or dilation below 1, a stride above the kernel, or a length below kernel * dilation.
cudaError_t neighbourhoodAttention(const NeighbourhoodAttentionParams& params, const NeighbourhoodAttentionShape& shape,
                                   cudaStream_t stream);

}  // namespace trtsmith
