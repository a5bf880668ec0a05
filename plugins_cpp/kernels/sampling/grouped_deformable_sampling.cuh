// Deformable sampling in groups of channels, forward: DCNv3 and DCNv4. Declaration only: needs neither nvcc nor TensorRT.
//
// Every group of channels of an output pixel is the sum of K bilinear samples of the input, each times a number of the
// mask; pixels outside of the input are zero. Taps go column by column. Formula: "InternImage" (Wang et al., arXiv
// 2211.05778), equation 2, and "DCNv4" (Xiong et al., arXiv 2401.06197), with the numerics of dcnv3_im2col_cuda.cuh: the
// scale of the offsets moves the taps themselves, too, about the middle of the kernel.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/dtype.hpp"

namespace trtsmith {

// No side of the input, padding or kernel, dilated, is larger.
inline constexpr int64_t kMaxGroupedSamplingSide = int64_t{1} << 29;

// Device pointers, row-major, aligned to their element size. T is `type`. A tensor without elements may be null. The
// output must not overlap an input.
struct GroupedDeformableSamplingParams {
    DType type;          // kFloat32, kFloat16 or kBFloat16; positions and sums are fp32 for all three
    const void* x;       // T [N, H, W, C]
    const void* offset;  // T [N, Ho, Wo, offsetChannels]: 2 * K offsets (dx, dy) for each group
    const void* mask;    // T [N, Ho, Wo, groups * K], where maskApart
    void* output;        // T [N, Ho, Wo, C]
};

struct GroupedDeformableSamplingShape {
    int64_t batch;
    int64_t height;
    int64_t width;
    int64_t channels;
    int64_t outHeight;
    int64_t outWidth;
    int64_t offsetChannels;
    int64_t kernelHeight;
    int64_t kernelWidth;
    int64_t strideHeight;
    int64_t strideWidth;
    int64_t paddingTop;
    int64_t paddingLeft;
    int64_t dilationHeight;
    int64_t dilationWidth;
    int64_t groups;
    float offsetScale;
    bool removeCenter;  // the tap in the middle of an odd kernel is left out
    bool maskApart;     // or else every group has its K numbers of the mask after its offsets
};

// cudaErrorInvalidValue for sizes that do not fit together or are too large.
cudaError_t groupedDeformableSampling(const GroupedDeformableSamplingParams& params,
                                      const GroupedDeformableSamplingShape& shape, cudaStream_t stream);

}  // namespace trtsmith
