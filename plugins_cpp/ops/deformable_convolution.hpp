// Deformable convolution with and without a mask: one kernel, two operators that differ in their inputs.
#pragma once

#include "kernels/deformable_convolution.cuh"
#include "ops/binding.hpp"

namespace trtsmith {

struct DeformableConvolutionFields {
    std::array<int32_t, 2> stride;    // height, width
    std::array<int32_t, 4> padding;   // top, left, bottom, right
    std::array<int32_t, 2> dilation;  // height, width
    int32_t groups;
    int32_t offset_groups;
};

template <bool Masked>
struct DeformableConvolutionOp {
    using Params = DeformableConvolutionFields;
    static constexpr std::array<Field<Params>, 5> kFields{
        field<&Params::stride>("stride", atLeast(1)),
        field<&Params::padding>("padding", atLeast(0)),
        field<&Params::dilation>("dilation", atLeast(1)),
        field<&Params::groups>("groups", atLeast(1)),
        field<&Params::offset_groups>("offset_groups", atLeast(1)),
    };

    static constexpr size_t kX = 0;
    static constexpr size_t kOffset = 1;
    static constexpr size_t kMask = 2;  // only where Masked
    static constexpr size_t kWeight = Masked ? 3 : 2;
    static constexpr size_t kBias = kWeight + 1;

    static constexpr auto signature() {
        constexpr Port x{"x", TypeVar::kT, 4};
        constexpr Port offset{"offset", TypeVar::kT, 4};
        constexpr Port mask{"mask", TypeVar::kT, 4};
        constexpr Port weight{"weight", TypeVar::kT, 4};
        constexpr Port bias{"bias", TypeVar::kT, 1, true};
        constexpr Port output{"output", TypeVar::kT, 4};
        if constexpr (Masked) {
            return Signature<5, 1>{{{x, offset, mask, weight, bias}}, {{output}}};
        } else {
            return Signature<4, 1>{{{x, offset, weight, bias}}, {{output}}};
        }
    }
    static constexpr auto kSignature = signature();

    template <typename D>
    static void shape(const Params& params, const Shape<D>* in, int32_t, Shape<D>* out) {
        out[0] = Shape<D>::of(in[kX][0], in[kWeight][0], outSize(params, in[kX], in[kWeight], 0),
                              outSize(params, in[kX], in[kWeight], 1));
    }

    static std::string check(const Params& params, const Tensors& t) {
        const Tensor& x = t.in[kX];
        const Tensor& offset = t.in[kOffset];
        const Tensor& weight = t.in[kWeight];
        const int64_t groups = params.groups;
        const int64_t offsetGroups = params.offset_groups;
        if (x[1] % groups != 0 || x[1] % offsetGroups != 0 || weight[0] % groups != 0) {
            return "groups and offset_groups must divide the channels";
        }
        if (weight[1] != x[1] / groups) {
            return "weight has " + std::to_string(weight[1]) + " input channels; expected " +
                   std::to_string(x[1] / groups);
        }
        const int64_t taps = offsetGroups * weight[2] * weight[3];
        const int64_t height = outSize(params, x.shape, weight.shape, 0);
        const int64_t width = outSize(params, x.shape, weight.shape, 1);
        if (!hasShape(offset, x[0], 2 * taps, height, width)) {
            return "offset must have shape [N, 2 * offset_groups * KH * KW, Ho, Wo]";
        }
        if (Masked && !hasShape(t.in[kMask], x[0], taps, height, width)) {
            return "mask must have shape [N, offset_groups * KH * KW, Ho, Wo]";
        }
        if (t.has(kBias) && t.in[kBias][0] != weight[0]) {
            return "bias must have one element for each output channel";
        }
        return {};
    }

    static size_t workspace(const Params& params, const Tensors& t) {
        return deformableConvolutionWorkspace(t.in[kX].type, sizes(params, t));
    }

    static cudaError_t run(const Params& params, const Tensors& t, void* workspace, cudaStream_t stream) {
        const Tensor& x = t.in[kX];
        const DeformableConvolutionParams arguments{
            .type = x.type,
            .x = x.data,
            .offset = t.in[kOffset].data,
            .mask = Masked ? t.in[kMask].data : nullptr,
            .weight = t.in[kWeight].data,
            .bias = t.has(kBias) ? t.in[kBias].data : nullptr,
            .output = t.output(0),
        };
        return deformableConvolution(arguments, sizes(params, t), workspace, stream);
    }

private:
    static DeformableConvolutionShape sizes(const Params& params, const Tensors& t) {
        const Tensor& x = t.in[kX];
        const Tensor& weight = t.in[kWeight];
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

    // axis 0 is the height, 1 the width.
    template <typename D>
    static D outSize(const Params& params, const Shape<D>& x, const Shape<D>& weight, int32_t axis) {
        const size_t a = static_cast<size_t>(axis);
        const int64_t padding = int64_t{params.padding[a]} + params.padding[a + 2];
        const D extent = (weight[axis + 2] - 1) * int64_t{params.dilation[a]} + 1;
        return floorDiv(x[axis + 2] + padding - extent, int64_t{params.stride[a]}) + 1;
    }

    static bool hasShape(const Tensor& tensor, int64_t n, int64_t c, int64_t h, int64_t w) {
        return tensor[0] == n && tensor[1] == c && tensor[2] == h && tensor[3] == w;
    }
};

}  // namespace trtsmith
