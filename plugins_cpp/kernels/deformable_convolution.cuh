// Deformable convolution, forward: DCNv2 (modulated) with a mask, DCNv1 without. Needs neither nvcc nor TensorRT.
//
// Formula: "Deformable ConvNets v2" (Zhu et al., 2019), equation 1, with the numerics of torchvision's deform_conv2d,
// mmcv's ModulatedDeformConv2d and ONNX DeformConv (opset 19):
//   out[n, o, y, x] = bias[o] + sum over c of the group, taps (i, j) of
//       weight[o, c, i, j] * mask[n, tap, y, x] * sample(x[n, c], position)
//   position = (y * strideHeight - paddingTop  + i * dilationHeight + offset[n, 2 * tap,     y, x],
//               x * strideWidth  - paddingLeft + j * dilationWidth  + offset[n, 2 * tap + 1, y, x])
//   tap      = (offset group of c) * KH * KW + i * KW + j
// The sample is bilinear, pixel centres at integers. Each of its four neighbours counts only inside the image, and a
// position at or beyond -1 or the far edge gives zero.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "dtype.hpp"

namespace trtsmith {

struct DeformableConvolutionShape {
    int64_t batch;         // N
    int64_t channels;      // C, divisible by groups and by offsetGroups
    int64_t height;        // H
    int64_t width;         // W
    int64_t outChannels;   // O, divisible by groups
    int64_t kernelHeight;  // KH
    int64_t kernelWidth;   // KW
    int64_t outHeight;     // Ho: the padding at the bottom and right acts only through these two
    int64_t outWidth;      // Wo
    int64_t strideHeight;
    int64_t strideWidth;
    int64_t paddingTop;
    int64_t paddingLeft;
    int64_t dilationHeight;
    int64_t dilationWidth;
    int64_t groups;        // G
    int64_t offsetGroups;  // OG: its channel ranges need not coincide with those of the groups
};

// Device pointers, row-major, aligned to their element size. T is `type`; sums are fp32 for all three types. A tensor
// without elements may be null. The output must not overlap an input.
struct DeformableConvolutionParams {
    DType type;          // kFloat32, kFloat16 or kBFloat16
    const void* x;       // T [N, C, H, W]
    const void* offset;  // T [N, OG * KH * KW * 2, Ho, Wo], (dy, dx) for each tap; any value is safe
    const void* mask;    // T [N, OG * KH * KW, Ho, Wo], already activated; null for DCNv1
    const void* weight;  // T [O, C / G, KH, KW]
    const void* bias;    // T [O], or null
    void* output;        // T [N, O, Ho, Wo]
};

// Bytes of device memory that deformableConvolution needs as `workspace` to run on tensor cores: x and the weights laid
// out anew. At most a quarter of what im2col of all images needs for x, but at least one image. It never falls when a
// size grows. 0 for a shape that deformableConvolution refuses, or where nothing is sampled.
size_t deformableConvolutionWorkspace(DType type, const DeformableConvolutionShape& shape);

// Enqueues on `stream`. `workspace` is aligned to 256 bytes; where it is null, a slower kernel runs that needs none, as
// it does before sm_80, and where C / G and C / OG have no common multiple of 16 bytes of channels as a divisor.
// Samples are computed in fp32 and, on tensor cores, rounded to T before they are multiplied; fp32 keeps 22 bits.
// A NaN or infinite offset samples zero. With no input channel, input pixel or tap the output is the bias, or zero.
// Returns cudaErrorInvalidValue for a negative or overflowing size, any single size but N of 2^31 - 128 or more, a
// stride or dilation outside [1, 2^31), a padding outside (-2^31, 2^31), groups that are not positive or do not divide,
// a wrong type, or a null pointer to a tensor that has elements; otherwise the error of the launch.
cudaError_t deformableConvolution(const DeformableConvolutionParams& params, const DeformableConvolutionShape& shape,
                                  void* workspace, cudaStream_t stream);

}  // namespace trtsmith
