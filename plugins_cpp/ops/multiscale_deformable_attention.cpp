// Multi-scale deformable attention: ports, shapes and sizes; the arithmetic is in kernels/.
#include "kernels/multiscale_deformable_attention.cuh"

#include "ops/binding.hpp"

namespace trtsmith {

struct MultiscaleDeformableAttention {
    static constexpr const char* kName = "MultiscaleDeformableAttention";
    static constexpr const char* kVersion = "1";

    struct Params {};
    static constexpr std::array<Field<Params>, 0> kFields{};

    enum Input : size_t { kValue, kSpatialShapes, kLevelStartIndex, kSamplingLocations, kAttentionWeights };
    static constexpr Signature<5, 1> kSignature{
        {{
            {"value", TypeVar::kT, 4},
            {"spatial_shapes", TypeVar::kI, 2},
            {"level_start_index", TypeVar::kI, 1},
            {"sampling_locations", TypeVar::kT, 6},
            {"attention_weights", TypeVar::kT, 5},
        }},
        {{{"output", TypeVar::kT, 3}}},
    };

    template <typename D>
    static void shape(const Params&, const Shape<D>* in, int32_t, Shape<D>* out) {
        const Shape<D>& value = in[kValue];
        out[0] = Shape<D>::of(value[0], in[kSamplingLocations][1], value[2] * value[3]);
    }

    static std::string check(const Params&, const Tensors& t) {
        const Tensor& value = t.in[kValue];
        const Tensor& locations = t.in[kSamplingLocations];
        const Tensor& weights = t.in[kAttentionWeights];
        const bool samePoints = weights[0] == locations[0] && weights[1] == locations[1] &&
                                weights[2] == locations[2] && weights[3] == locations[3] &&
                                weights[4] == locations[4] && locations[5] == 2;
        if (!samePoints || locations[0] != value[0] || locations[2] != value[2]) {
            return "value, sampling_locations and attention_weights disagree in batch, heads, levels or points";
        }
        const bool sameLevels = t.in[kSpatialShapes][0] == weights[3] && t.in[kLevelStartIndex][0] == weights[3];
        if (!sameLevels || t.in[kSpatialShapes][1] != 2) {
            return "spatial_shapes and level_start_index must have one row for each level";
        }
        return {};
    }

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
