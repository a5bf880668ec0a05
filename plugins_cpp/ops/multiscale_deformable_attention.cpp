// Multi-scale deformable attention: a launch of the kernel in kernels/.
#include "definitions/multiscale_deformable_attention.hpp"

#include "kernels/multiscale_deformable_attention.cuh"
#include "ops/binding.hpp"

namespace trtsmith {

struct MultiscaleDeformableAttention : MultiscaleDeformableAttentionDefinition {
    static cudaError_t run(const Params&, const Tensors& t, void*, cudaStream_t stream) {
        const Tensor& value = t.in[kValue];
        const Tensor& weights = t.in[kAttentionWeights];
        const MultiscaleDeformableAttentionShape shape{
            .batch = value[0],
            .keys = value[1],
            .heads = value[2],
            .channels = value[3],
            .queries = weights[1],
            .levels = weights[3],
            .points = weights[4],
        };
        const MultiscaleDeformableAttentionParams params{
            .type = value.type,
            .indexType = t.in[kSpatialShapes].type,
            .value = value.data,
            .spatialShapes = t.in[kSpatialShapes].data,
            .levelStartIndex = t.in[kLevelStartIndex].data,
            .samplingLocations = t.in[kSamplingLocations].data,
            .attentionWeights = weights.data,
            .output = t.output(0),
        };
        return multiscaleDeformableAttention(params, shape, stream);
    }
};

TRTSMITH_BIND(MultiscaleDeformableAttention)

}  // namespace trtsmith
