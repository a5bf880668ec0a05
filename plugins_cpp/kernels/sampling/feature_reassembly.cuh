// Content-aware reassembly of features, CARAFE, forward. Declaration only: needs neither nvcc nor TensorRT.
//
// Formula: Wang et al., "CARAFE" (arXiv 1905.02188), equation 4, with the layouts of mmcv's carafe_naive_cuda_kernel.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"

namespace trtsmith {

// Device pointers, row-major, aligned to their element size. T is `type`. A tensor without elements may be null. The
// output must not overlap an input.
struct FeatureReassemblyParams {
    DType type;         // kFloat32, kFloat16 or kBFloat16; sums are fp32 for all three
    const void* x;      // T [N, C, H, W]
    const void* masks;  // T [N, groups * kernel * kernel, H * scale, W * scale]
    void* output;       // T [N, C, H * scale, W * scale]
};

struct FeatureReassemblyShape {
    int64_t batch;
    int64_t channels;
    int64_t height;  // it, width, and both times scale less than 2^31
    int64_t width;
    int64_t kernel;  // odd, at most kMaxReassemblyKernel
    int64_t groups;  // divides the channels
    int64_t scale;   // at most kMaxReassemblyScale
};

inline constexpr int64_t kMaxReassemblyKernel = 1023;
inline constexpr int64_t kMaxReassemblyScale = 1024;

// Bytes of workspace: the maps with their channels last, where they are turned first.
size_t featureReassemblyWorkspace(DType type, const FeatureReassemblyShape& shape);

// Taps outside of the map count as nothing, whatever their masks are.
//
// cudaErrorInvalidValue for sizes that do not fit together or are too large, a null pointer to a tensor that has elements,
// or no workspace where some is needed.
cudaError_t featureReassembly(const FeatureReassemblyParams& params, const FeatureReassemblyShape& shape,
                              void* workspace, cudaStream_t stream);

}  // namespace trtsmith
