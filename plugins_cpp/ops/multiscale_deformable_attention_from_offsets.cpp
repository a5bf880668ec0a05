// Multi-scale deformable attention from offsets and logits: ports, shapes and sizes; the arithmetic is in kernels/.
#include "kernels/multiscale_deformable_attention_from_offsets.cuh"

#include "ops/binding.hpp"

namespace trtsmith {

struct MultiscaleDeformableAttentionFromOffsets {
    static constexpr const char* kName = "MultiscaleDeformableAttentionFromOffsets";
    static constexpr const char* kVersion = "1";

    struct Params {};
    static constexpr std::array<Field<Params>, 0> kFields{};

    enum Input : size_t {
        kValue,
        kSpatialShapes,
        kLevelStartIndex,
        kReferencePoints,
        kSamplingOffsets,
        kAttentionLogits
    };
    static constexpr Signature<6, 1> kSignature{
        {{
            {"value", TypeVar::kT, 4},
            {"spatial_shapes", TypeVar::kI, 2},
            {"level_start_index", TypeVar::kI, 1},
            {"reference_points", TypeVar::kF, 5},
            {"sampling_offsets", TypeVar::kT, 6},
            {"attention_logits", TypeVar::kT, 5},
        }},
        {{{"output", TypeVar::kT, 3}}},
    };

    template <typename D>
    static void shape(const Params&, const Shape<D>* in, int32_t, Shape<D>* out) {
        const Shape<D>& value = in[kValue];
        out[0] = Shape<D>::of(value[0], in[kSamplingOffsets][1], value[2] * value[3]);
    }

    static std::string check(const Params&, const Tensors& t) {
        const Tensor& value = t.in[kValue];
        const Tensor& offsets = t.in[kSamplingOffsets];
        const Tensor& logits = t.in[kAttentionLogits];
        const Tensor& references = t.in[kReferencePoints];
        const bool samePoints = logits[0] == offsets[0] && logits[1] == offsets[1] && logits[2] == offsets[2] &&
                                logits[3] == offsets[3] && logits[4] == offsets[4] && offsets[5] == 2;
        if (!samePoints || offsets[2] != value[2]) {
            return "value, sampling_offsets and attention_logits disagree in batch, heads, levels or points";
        }
        if (offsets[0] > 0 ? value[0] % offsets[0] != 0 : value[0] != 0) {
            return "the batch of value must be a multiple of that of sampling_offsets";
        }
        const bool sameLevels = t.in[kSpatialShapes][0] == logits[3] && t.in[kLevelStartIndex][0] == logits[3];
        if (!sameLevels || t.in[kSpatialShapes][1] != 2) {
            return "spatial_shapes and level_start_index must have one row for each level";
        }
        if ((references[0] != 1 && references[0] != value[0]) || references[1] != logits[1] ||
            (references[2] != 1 && references[2] != logits[3])) {
            return "reference_points must have one row for each query, and one batch and level, or as many as there "
                   "are";
        }
        if (references[3] < 1 || logits[4] % references[3] != 0 || (references[4] != 2 && references[4] != 4)) {
            return "reference_points must have 2 or 4 coordinates, and as many points as a level's are a multiple of";
        }
        return {};
    }

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
