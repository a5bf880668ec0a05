// Content-aware reassembly of features, CARAFE: a launch of the kernel in kernels/.
#include "definitions/feature_reassembly.hpp"

#include "kernels/sampling/feature_reassembly.cuh"
#include "ops/binding.hpp"

namespace trtsmith {

struct FeatureReassembly : FeatureReassemblyDefinition {
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
