#include "multiscale_deformable_attention.cuh"

#include "dispatch.cuh"
#include "multiscale_deformable_attention_general.cuh"
#include "multiscale_deformable_attention_source.cuh"

namespace trtsmith {

cudaError_t multiscaleDeformableAttention(const MultiscaleDeformableAttentionParams& params,
                                          const MultiscaleDeformableAttentionShape& shape, cudaStream_t stream) {
    const AttentionTensors tensors{
        params.indexType,        params.value, params.spatialShapes, params.levelStartIndex, params.samplingLocations,
        params.attentionWeights, params.output};
    int64_t outputs = 0;
    if (!isAttention(tensors, shape, outputs)) {
        return cudaErrorInvalidValue;
    }
    return withFloatType(params.type, [&](auto tag) -> cudaError_t {
        using Source = GivenSamples<typename decltype(tag)::type>;
        return outputs == 0 ? cudaSuccess : attend<Source>(tensors, {}, shape, stream);
    });
}

}  // namespace trtsmith
