#include "multiscale_deformable_attention_from_offsets.cuh"

#include "dispatch.cuh"
#include "multiscale_deformable_attention_general.cuh"
#include "multiscale_deformable_attention_offsets.cuh"

namespace trtsmith {
namespace {

// Every entry of the batch has offsets, as many as each other.
bool isShared(int64_t offsets, int64_t batch) { return offsets > 0 ? batch % offsets == 0 : batch == 0; }

bool suits(const ReferencePointsShape& references, const MultiscaleDeformableAttentionShape& shape) {
    return (references.batch == 1 || references.batch == shape.batch) &&
           (references.levels == 1 || references.levels == shape.levels) && references.groups > 0 &&
           shape.points % references.groups == 0 && isShared(references.offsetBatch, shape.batch) &&
           (references.coordinates == 2 || references.coordinates == 4);
}

}  // namespace

cudaError_t multiscaleDeformableAttentionFromOffsets(const MultiscaleDeformableAttentionFromOffsetsParams& params,
                                                     const MultiscaleDeformableAttentionShape& shape,
                                                     const ReferencePointsShape& references, cudaStream_t stream) {
    const AttentionTensors tensors{params.indexType,       params.value,           params.spatialShapes,
                                   params.levelStartIndex, params.samplingOffsets, params.attentionLogits,
                                   params.output};
    int64_t outputs = 0;
    int64_t points = 0;
    int64_t numbers = 0;
    if (!isAttention(tensors, shape, outputs) || !suits(references, shape) ||
        !elementCount({references.levels, references.groups, references.coordinates}, points) ||
        !elementCount({references.batch, shape.queries, references.levels, references.groups, references.coordinates},
                      numbers) ||
        (numbers > 0 && params.referencePoints == nullptr)) {
        return cudaErrorInvalidValue;
    }
    ReferenceArguments arguments{};
    arguments.referencePoints = static_cast<const float*>(params.referencePoints);
    arguments.referenceBatch = references.batch == 1 ? 0 : shape.queries * points;
    arguments.referenceQuery = points;
    arguments.sharedBy = references.offsetBatch > 0 ? shape.batch / references.offsetBatch : 1;
    arguments.groups = references.groups;
    arguments.referenceLevels = references.levels;
    arguments.coordinates = references.coordinates;
    arguments.referenceStep = static_cast<uint32_t>(points * static_cast<int64_t>(sizeof(float)));
    arguments.boxShare = 0.5F / static_cast<float>(shape.points);
    return withFloatType(params.type, [&](auto tag) -> cudaError_t {
        using Source = OffsetSamples<typename decltype(tag)::type>;
        return outputs == 0 ? cudaSuccess : attend<Source>(tensors, arguments, shape, stream);
    });
}

}  // namespace trtsmith
