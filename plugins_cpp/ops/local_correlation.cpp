// Correlation of patches of two maps: ports, shapes and sizes; the arithmetic is in kernels/.
#include "kernels/sampling/local_correlation.cuh"

#include <limits>
#include <string>

#include "ops/binding.hpp"

namespace trtsmith {

struct LocalCorrelation {
    static constexpr const char* kName = "LocalCorrelation";
    static constexpr const char* kVersion = "1";

    struct Params {
        int32_t max_displacement;
        std::array<int32_t, 2> kernel_size;  // height, width, as all pairs
        std::array<int32_t, 2> stride;
        std::array<int32_t, 2> padding;
        std::array<int32_t, 2> dilation;
        std::array<int32_t, 2> dilation_patch;
    };
    static constexpr std::array<Field<Params>, 6> kFields{
        field<&Params::max_displacement>("max_displacement", atLeast(0)),
        field<&Params::kernel_size>("kernel_size", atLeast(1)),
        field<&Params::stride>("stride", atLeast(1)),
        field<&Params::padding>("padding", atLeast(0)),
        field<&Params::dilation>("dilation", atLeast(1)),
        field<&Params::dilation_patch>("dilation_patch", atLeast(1)),
    };

    enum Input : size_t { kFirst, kSecond };
    static constexpr Signature<2, 1> kSignature{
        {{{"first", TypeVar::kT, 4}, {"second", TypeVar::kT, 4}}},
        {{{"output", TypeVar::kT, 5}}},
    };

    template <typename D>
    static void shape(const Params& p, const Shape<D>* in, int32_t, Shape<D>* out) {
        const Shape<D>& first = in[kFirst];
        const D patch = constantLike(first[0], 2 * int64_t{p.max_displacement} + 1);
        out[0] = Shape<D>::of(first[0], patch, patch, outSize(p, first, 0), outSize(p, first, 1));
    }

    static std::string check(const Params& p, const Tensors& t) {
        const Tensor& first = t.in[kFirst];
        const Tensor& second = t.in[kSecond];
        for (int32_t axis = 0; axis < 4; ++axis) {
            if (first[axis] != second[axis]) {
                return "first and second differ in shape";
            }
        }
        for (int32_t axis = 0; axis < 2; ++axis) {
            const size_t a = static_cast<size_t>(axis);
            if (first[axis + 2] > std::numeric_limits<int32_t>::max()) {
                return "first must have sides of less than 2^31 pixels";
            }
            if (reach(p, a) > kMaxCorrelationReach || p.padding[a] > kMaxCorrelationReach ||
                int64_t{p.max_displacement} * p.dilation_patch[a] > kMaxCorrelationReach) {
                return "the padding, the kernel and the displacement must reach at most 2^29 pixels";
            }
            if (outSize(p, first.shape, axis) < 1) {
                return "the kernel does not fit into the map with its padding";
            }
        }
        return {};
    }

    static size_t workspace(const Params& p, const Tensors& t) {
        return localCorrelationWorkspace(t.in[kFirst].type, kernelShape(p, t));
    }

    static cudaError_t run(const Params& p, const Tensors& t, void* workspace, cudaStream_t stream) {
        const LocalCorrelationParams params{
            .type = t.in[kFirst].type,
            .first = t.in[kFirst].data,
            .second = t.in[kSecond].data,
            .output = t.output(0),
        };
        return localCorrelation(params, kernelShape(p, t), workspace, stream);
    }

private:
    // Axis 0 is the height, 1 the width.
    static int64_t reach(const Params& p, size_t axis) { return int64_t{p.dilation[axis]} * (p.kernel_size[axis] - 1); }

    template <typename D>
    static D outSize(const Params& p, const Shape<D>& first, int32_t axis) {
        const size_t a = static_cast<size_t>(axis);
        const int64_t room = 2 * int64_t{p.padding[a]} - reach(p, a) - 1;
        return floorDiv(first[axis + 2] + room, int64_t{p.stride[a]}) + 1;
    }

    static LocalCorrelationShape kernelShape(const Params& p, const Tensors& t) {
        const Tensor& first = t.in[kFirst];
        return {
            .batch = first[0],
            .channels = first[1],
            .height = first[2],
            .width = first[3],
            .outHeight = outSize(p, first.shape, 0),
            .outWidth = outSize(p, first.shape, 1),
            .radius = p.max_displacement,
            .kernelHeight = p.kernel_size[0],
            .kernelWidth = p.kernel_size[1],
            .strideHeight = p.stride[0],
            .strideWidth = p.stride[1],
            .paddingTop = p.padding[0],
            .paddingLeft = p.padding[1],
            .dilationHeight = p.dilation[0],
            .dilationWidth = p.dilation[1],
            .stepHeight = p.dilation_patch[0],
            .stepWidth = p.dilation_patch[1],
        };
    }
};

TRTSMITH_BIND(LocalCorrelation)

}  // namespace trtsmith
