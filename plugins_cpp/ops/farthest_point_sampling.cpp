// Farthest point sampling: a launch of the kernel in kernels/.
#include "definitions/farthest_point_sampling.hpp"

#include "kernels/points/farthest_point_sampling.cuh"
#include "ops/binding.hpp"

namespace trtsmith {

struct FarthestPointSampling : FarthestPointSamplingDefinition {
    static FarthestPointSamplingShape shapeOf(const Params& p, const Tensors& t) {
        return {t.in[kPoints][0], t.in[kPoints][1], p.samples};
    }

    static size_t workspace(const Params& p, const Tensors& t) { return farthestPointSamplingWorkspace(shapeOf(p, t)); }

    static cudaError_t run(const Params& p, const Tensors& t, void* workspace, cudaStream_t stream) {
        const Tensor& points = t.in[kPoints];
        const FarthestPointSamplingParams params{points.type, points.data, static_cast<int32_t*>(t.output(0)),
                                                 p.skip_origin != 0};
        return farthestPointSampling(params, shapeOf(p, t), workspace, stream);
    }
};

TRTSMITH_BIND(FarthestPointSampling)

}  // namespace trtsmith
