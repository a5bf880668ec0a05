// The rulebook of a submanifold convolution: a launch of the kernel in kernels/.
#include "definitions/submanifold_rulebook.hpp"

#include "kernels/sparse/submanifold_rulebook.cuh"
#include "ops/binding.hpp"
#include "ops/rulebook.hpp"

namespace trtsmith {

struct SubmanifoldRulebook : SubmanifoldRulebookDefinition {
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
