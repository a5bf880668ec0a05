// Deformable sampling in groups of channels, DCNv3 and DCNv4: ports, shapes and sizes; the arithmetic is in kernels/.
#include "kernels/sampling/grouped_deformable_sampling.cuh"

#include <string>

#include "ops/binding.hpp"

namespace trtsmith {

struct GroupedDeformableSampling {
    static constexpr const char* kName = "GroupedDeformableSampling";
    static constexpr const char* kVersion = "1";

    struct Params {
        std::array<int32_t, 2> kernel_shape;  // height, width, as all pairs
        std::array<int32_t, 2> stride;
        std::array<int32_t, 2> padding;
        std::array<int32_t, 2> dilation;
        int32_t groups;
        float offset_scale;
        int32_t remove_center;
    };
    static constexpr std::array<Field<Params>, 7> kFields{
        field<&Params::kernel_shape>("kernel_shape", atLeast(1)),
        field<&Params::stride>("stride", atLeast(1)),
        field<&Params::padding>("padding", atLeast(0)),
        field<&Params::dilation>("dilation", atLeast(1)),
        field<&Params::groups>("groups", atLeast(1)),
        field<&Params::offset_scale>("offset_scale", atLeast(0)),
        field<&Params::remove_center>("remove_center", kZeroOrOne),
    };

    enum Input : size_t { kX, kOffset, kMask };
    static constexpr Signature<3, 1> kSignature{
        {{{"x", TypeVar::kT, 4}, {"offset", TypeVar::kT, 4}, {"mask", TypeVar::kT, 4, true}}},
        {{{"output", TypeVar::kT, 4}}},
    };

    template <typename D>
    static void shape(const Params& params, const Shape<D>* in, int32_t, Shape<D>* out) {
        out[0] = Shape<D>::of(in[kX][0], outSize(params, in[kX], 0), outSize(params, in[kX], 1), in[kX][3]);
    }

    static std::string check(const Params& params, const Tensors& t) {
        const Tensor& x = t.in[kX];
        const Tensor& offset = t.in[kOffset];
        if (const std::string fault = fieldFault(params, x); !fault.empty()) {
            return fault;
        }
        if (x[3] % params.groups != 0) {
            return "groups must divide the channels";
        }
        const int64_t samples = int64_t{params.groups} * taps(params);
        if (!hasPlaces(params, offset, x)) {
            return "offset must have shape [N, Ho, Wo, ...]";
        }
        if (t.has(kMask)) {
            if (offset[3] != 2 * samples) {
                return "offset must have 2 * groups * taps numbers for each pixel";
            }
            if (!hasPlaces(params, t.in[kMask], x) || t.in[kMask][3] != samples) {
                return "mask must have shape [N, Ho, Wo, groups * taps]";
            }
        } else if (offset[3] < 3 * samples) {
            return "offset must have at least 3 * groups * taps numbers for each pixel where there is no mask";
        }
        return {};
    }

    static cudaError_t run(const Params& params, const Tensors& t, void*, cudaStream_t stream) {
        const Tensor& x = t.in[kX];
        const GroupedDeformableSamplingParams arguments{
            .type = x.type,
            .x = x.data,
            .offset = t.in[kOffset].data,
            .mask = t.has(kMask) ? t.in[kMask].data : nullptr,
            .output = t.output(0),
        };
        const GroupedDeformableSamplingShape sizes{
            .batch = x[0],
            .height = x[1],
            .width = x[2],
            .channels = x[3],
            .outHeight = t.out[0][1],
            .outWidth = t.out[0][2],
            .offsetChannels = t.in[kOffset][3],
            .kernelHeight = params.kernel_shape[0],
            .kernelWidth = params.kernel_shape[1],
            .strideHeight = params.stride[0],
            .strideWidth = params.stride[1],
            .paddingTop = params.padding[0],
            .paddingLeft = params.padding[1],
            .dilationHeight = params.dilation[0],
            .dilationWidth = params.dilation[1],
            .groups = params.groups,
            .offsetScale = params.offset_scale,
            .removeCenter = params.remove_center != 0,
            .maskApart = t.has(kMask),
        };
        return groupedDeformableSampling(arguments, sizes, stream);
    }

private:
    static int64_t taps(const Params& params) {
        return int64_t{params.kernel_shape[0]} * params.kernel_shape[1] - params.remove_center;
    }

    // Axis 0 is the height, 1 the width.
    static int64_t reach(const Params& params, size_t axis) {
        return int64_t{params.dilation[axis]} * (params.kernel_shape[axis] - 1);
    }

    template <typename D>
    static D outSize(const Params& params, const Shape<D>& x, int32_t axis) {
        const size_t a = static_cast<size_t>(axis);
        const int64_t room = 2 * int64_t{params.padding[a]} - reach(params, a) - 1;
        return floorDiv(x[axis + 1] + room, int64_t{params.stride[a]}) + 1;
    }

    static bool hasPlaces(const Params& params, const Tensor& tensor, const Tensor& x) {
        return tensor[0] == x[0] && tensor[1] == outSize(params, x.shape, 0) &&
               tensor[2] == outSize(params, x.shape, 1);
    }

    static std::string fieldFault(const Params& params, const Tensor& x) {
        if (params.remove_center != 0) {
            if (params.kernel_shape[0] % 2 == 0 || params.kernel_shape[1] % 2 == 0) {
                return "remove_center needs a kernel of odd height and width";
            }
            if (taps(params) == 0) {
                return "remove_center leaves a kernel of 1x1 without a tap";
            }
        }
        for (size_t axis = 0; axis < 2; ++axis) {
            if (params.padding[axis] > kMaxGroupedSamplingSide || reach(params, axis) > kMaxGroupedSamplingSide ||
                x[static_cast<int32_t>(axis) + 1] > kMaxGroupedSamplingSide) {
                return "the input, padding and kernel must have sides of at most 2^29 pixels";
            }
        }
        return {};
    }
};

TRTSMITH_BIND(GroupedDeformableSampling)

}  // namespace trtsmith
