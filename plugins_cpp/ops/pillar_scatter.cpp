// Features of pillars laid out on their grid: a launch of the kernel in kernels/.
#include "definitions/pillar_scatter.hpp"

#include "kernels/bev/pillar_scatter.cuh"
#include "ops/binding.hpp"

namespace trtsmith {

struct PillarScatter : PillarScatterDefinition {
    static size_t workspace(const Params& p, const Tensors& t) { return pillarScatterWorkspace(kernelShape(p, t)); }

    static cudaError_t run(const Params& p, const Tensors& t, void* workspace, cudaStream_t stream) {
        const PillarScatterParams params{
            .type = t.in[kFeatures].type,
            .features = t.in[kFeatures].data,
            .positions = static_cast<const int32_t*>(t.in[kCoords].data),
            .counts = static_cast<const int32_t*>(t.in[kCounts].data),
            .output = t.output(0),
        };
        return pillarScatter(params, kernelShape(p, t), workspace, stream);
    }

private:
    static PillarScatterShape kernelShape(const Params& p, const Tensors& t) {
        const Tensor& features = t.in[kFeatures];
        return {features[0], features[1], features[2], p.output_height, p.output_width};
    }
};

TRTSMITH_BIND(PillarScatter)

}  // namespace trtsmith
