// The selective scan of state spaces, forward. Declaration only: needs neither nvcc nor TensorRT. mamba_ssm's
// selective_scan_fn.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/dtype.hpp"

namespace trtsmith {

// Device pointers, row-major, aligned to their element size. T is `type`. A tensor without elements may be null. No
// output may overlap an input.
struct StateSpaceScanParams {
    DType type;         // kFloat32, kFloat16 or kBFloat16
    const void* u;      // T [batch, channels, length]
    const void* delta;  // T [batch, channels, length]
    const float* a;     // [channels, states]
    const void* b;      // T [batch, groups, states, length]
    const void* c;      // T [batch, groups, states, length]
    const float* d;     // [channels]: weight of u in the output
    const void* z;      // T [batch, channels, length], optional
    const float* bias;  // of delta, [channels]
    void* output;       // T [batch, channels, length]
    float* last;        // [batch, channels, states]
    bool softplus;      // of delta and its bias
};

struct StateSpaceScanShape {
    int64_t batch;
    int64_t channels;
    int64_t groups;
    int64_t states;
    int64_t length;
};

// Channel i reads the maps b and c of group i / (channels / groups). Sums, states and exponents are float32. Every element
// of both outputs is written.
//
// cudaErrorInvalidValue: a size below 0 or too large, a null pointer to a tensor that has elements, channels that the groups
// do not divide.
cudaError_t stateSpaceScan(const StateSpaceScanParams& params, const StateSpaceScanShape& shape, cudaStream_t stream);

}  // namespace trtsmith
