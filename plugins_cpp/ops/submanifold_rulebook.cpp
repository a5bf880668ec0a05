// The rulebook of a submanifold convolution: ports, shapes and sizes; the arithmetic is in kernels/.
#include "kernels/sparse/submanifold_rulebook.cuh"

#include "ops/binding.hpp"
#include "ops/rulebook.hpp"

namespace trtsmith {

struct SubmanifoldRulebook {
    static constexpr const char* kName = "SubmanifoldRulebook";
    static constexpr const char* kVersion = "1";

    struct Params {
        int32_t batch_size;
        GridSizes spatial_shape;
        GridSizes kernel_size;
        GridSizes dilation;
    };
    static constexpr std::array<Field<Params>, 4> kFields{
        field<&Params::batch_size>("batch_size", atLeast(1)),
        field<&Params::spatial_shape>("spatial_shape", atLeast(1)),
        field<&Params::kernel_size>("kernel_size", atLeast(1)),
        field<&Params::dilation>("dilation", atLeast(1)),
    };
    static constexpr Signature<1, 1> kSignature{{{{"indices", TypeVar::kS, 2}}}, {{{"pairs", TypeVar::kS, 2}}}};

    template <typename D>
    static void shape(const Params& p, const Shape<D>* in, int32_t, Shape<D>* out) {
        const D& rows = in[0][0];
        out[0] = Shape<D>::of(constantLike(rows, rulebookTaps(p.kernel_size)), rows);
    }

    static std::string check(const Params& p, const Tensors& t) {
        for (const int32_t size : p.kernel_size) {
            if (size % 2 == 0) {
                return "kernel_size must be odd";
            }
        }
        return rulebookFault(t.in[0], p.batch_size, p.spatial_shape);
    }

    static size_t workspace(const Params& p, const Tensors& t) {
        return submanifoldRulebookWorkspace(kernelShape(p, t));
    }

    static cudaError_t run(const Params& p, const Tensors& t, void* workspace, cudaStream_t stream) {
        const SubmanifoldRulebookParams params{
            .indices = static_cast<const int32_t*>(t.in[0].data),
            .pairs = static_cast<int32_t*>(t.output(0)),
        };
        return submanifoldRulebook(params, kernelShape(p, t), workspace, stream);
    }

private:
    static SubmanifoldRulebookShape kernelShape(const Params& p, const Tensors& t) {
        return {
            .rows = t.in[0][0],
            .batch = p.batch_size,
            .grid = wide(p.spatial_shape),
            .kernel = wide(p.kernel_size),
            .dilation = wide(p.dilation),
        };
    }
};

TRTSMITH_BIND(SubmanifoldRulebook)

}  // namespace trtsmith
