// Content-aware reassembly of features, CARAFE: ports, shapes and sizes; the arithmetic is in kernels/.
#include "kernels/sampling/feature_reassembly.cuh"

#include <limits>
#include <string>

#include "ops/binding.hpp"

namespace trtsmith {

struct FeatureReassembly {
    static constexpr const char* kName = "FeatureReassembly";
    static constexpr const char* kVersion = "1";

    struct Params {
        int32_t kernel_size;
        int32_t groups;
        int32_t scale_factor;
    };
    static constexpr std::array<Field<Params>, 3> kFields{
        field<&Params::kernel_size>("kernel_size", atLeast(1)),
        field<&Params::groups>("groups", atLeast(1)),
        field<&Params::scale_factor>("scale_factor", atLeast(1)),
    };

    enum Input : size_t { kX, kMasks };
    static constexpr Signature<2, 1> kSignature{
        {{{"x", TypeVar::kT, 4}, {"masks", TypeVar::kT, 4}}},
        {{{"output", TypeVar::kT, 4}}},
    };

    template <typename D>
    static void shape(const Params& p, const Shape<D>* in, int32_t, Shape<D>* out) {
        const Shape<D>& x = in[kX];
        out[0] = Shape<D>::of(x[0], x[1], x[2] * int64_t{p.scale_factor}, x[3] * int64_t{p.scale_factor});
    }

    static std::string check(const Params& p, const Tensors& t) {
        const Tensor& x = t.in[kX];
        const Tensor& masks = t.in[kMasks];
        if (p.kernel_size % 2 == 0 || p.kernel_size > kMaxReassemblyKernel) {
            return "kernel_size must be odd and at most " + std::to_string(kMaxReassemblyKernel);
        }
        if (p.scale_factor > kMaxReassemblyScale) {
            return "scale_factor must be at most " + std::to_string(kMaxReassemblyScale);
        }
        if (x[1] % p.groups != 0) {
            return "groups must divide the channels";
        }
        for (int32_t axis = 2; axis < 4; ++axis) {
            if (x[axis] > std::numeric_limits<int32_t>::max() / p.scale_factor) {
                return "the output must have sides of less than 2^31 pixels";
            }
        }
        const int64_t taps = int64_t{p.kernel_size} * p.kernel_size;
        if (masks[0] != x[0] || masks[1] != p.groups * taps || masks[2] != x[2] * p.scale_factor ||
            masks[3] != x[3] * p.scale_factor) {
            return "masks must have shape [N, groups * kernel_size^2, H * scale_factor, W * scale_factor]";
        }
        return {};
    }

    static size_t workspace(const Params& p, const Tensors& t) {
        return featureReassemblyWorkspace(t.in[kX].type, kernelShape(p, t));
    }

    static cudaError_t run(const Params& p, const Tensors& t, void* workspace, cudaStream_t stream) {
        const FeatureReassemblyParams params{
            .type = t.in[kX].type,
            .x = t.in[kX].data,
            .masks = t.in[kMasks].data,
            .output = t.output(0),
        };
        return featureReassembly(params, kernelShape(p, t), workspace, stream);
    }

private:
    static FeatureReassemblyShape kernelShape(const Params& p, const Tensors& t) {
        const Tensor& x = t.in[kX];
        return {x[0], x[1], x[2], x[3], p.kernel_size, p.groups, p.scale_factor};
    }
};

TRTSMITH_BIND(FeatureReassembly)

}  // namespace trtsmith
