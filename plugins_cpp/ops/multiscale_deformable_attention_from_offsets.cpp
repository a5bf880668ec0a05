// Multi-scale deformable attention from offsets and logits: a launch of the kernel in kernels/.
#include "definitions/multiscale_deformable_attention_from_offsets.hpp"

#include "kernels/multiscale_deformable_attention_from_offsets.cuh"
#include "ops/binding.hpp"

namespace trtsmith {

struct MultiscaleDeformableAttentionFromOffsets : MultiscaleDeformableAttentionFromOffsetsDefinition {
    static cudaError_t run(const Params&, const Tensors& t, void*, cudaStream_t stream) {
        const Tensor& value = t.in[kValue];
        const Tensor& logits = t.in[kAttentionLogits];
        const Tensor& references = t.in[kReferencePoints];
        const MultiscaleDeformableAttentionShape shape{
            .batch = value[0],
            .keys = value[1],
            .heads = value[2],
            .channels = value[3],
            .queries = logits[1],
            .levels = logits[3],
            .points = logits[4],
        };
        const MultiscaleDeformableAttentionFromOffsetsParams params{
            .type = value.type,
            .indexType = t.in[kSpatialShapes].type,
            .value = value.data,
            .spatialShapes = t.in[kSpatialShapes].data,
            .levelStartIndex = t.in[kLevelStartIndex].data,
            .referencePoints = references.data,
            .samplingOffsets = t.in[kSamplingOffsets].data,
            .attentionLogits = logits.data,
            .output = t.output(0),
        };
        const ReferencePointsShape points{
            .batch = references[0],
            .levels = references[2],
            .groups = references[3],
            .coordinates = references[4],
            .offsetBatch = logits[0],
        };
        return multiscaleDeformableAttentionFromOffsets(params, shape, points, stream);
    }
};

TRTSMITH_BIND(MultiscaleDeformableAttentionFromOffsets)

}  // namespace trtsmith
