// Deformable convolution with and without a mask: one kernel, two operators that differ in their inputs.
#pragma once

#include "kernels/deformable_convolution.cuh"
#include "ops/binding.hpp"

namespace trtsmith {

template <typename Definition>
struct DeformableConvolutionOp : Definition {
    using typename Definition::Params;

    static size_t workspace(const Params& params, const Tensors& t) {
        return deformableConvolutionWorkspace(t.in[Definition::kX].type, sizes(params, t));
    }

    static cudaError_t run(const Params& params, const Tensors& t, void* workspace, cudaStream_t stream) {
        const Tensor& x = t.in[Definition::kX];
        const DeformableConvolutionParams arguments{
            .type = x.type,
            .x = x.data,
            .offset = t.in[Definition::kOffset].data,
            .mask = maskOf(t),
            .weight = t.in[Definition::kWeight].data,
            .bias = t.has(Definition::kBias) ? t.in[Definition::kBias].data : nullptr,
            .output = t.output(0),
        };
        return deformableConvolution(arguments, sizes(params, t), workspace, stream);
    }

private:
    static const void* maskOf(const Tensors& t) {
        if constexpr (requires { Definition::kMask; }) {
            return t.in[Definition::kMask].data;
        }
        return nullptr;
    }

    static DeformableConvolutionShape sizes(const Params& params, const Tensors& t) {
        const Tensor& x = t.in[Definition::kX];
        const Tensor& weight = t.in[Definition::kWeight];
        return {
            .batch = x[0],
            .channels = x[1],
            .height = x[2],
            .width = x[3],
            .outChannels = weight[0],
            .kernelHeight = weight[2],
            .kernelWidth = weight[3],
            .outHeight = t.out[0][2],
            .outWidth = t.out[0][3],
            .strideHeight = params.stride[0],
            .strideWidth = params.stride[1],
            .paddingTop = params.padding[0],
            .paddingLeft = params.padding[1],
            .dilationHeight = params.dilation[0],
            .dilationWidth = params.dilation[1],
            .groups = params.groups,
            .offsetGroups = params.offset_groups,
        };
    }
};

}  // namespace trtsmith
