// Weighted sums of samples of cameras' feature maps: a launch of the kernel in kernels/.
#include "definitions/feature_aggregation.hpp"

#include "kernels/sampling/feature_aggregation.cuh"
#include "ops/binding.hpp"

namespace trtsmith {

struct FeatureAggregation : FeatureAggregationDefinition {
    static cudaError_t run(const Params&, const Tensors& t, void*, cudaStream_t stream) {
        const Tensor& features = t.in[kFeatures];
        const Tensor& weights = t.in[kWeights];
        const auto floats = [&](auto port) {
            return t.has(port) ? static_cast<const float*>(t.in[port].data) : nullptr;
        };
        const FeatureAggregationParams params{
            .type = features.type,
            .indexType = t.in[kSizes].type,
            .features = features.data,
            .sizes = t.in[kSizes].data,
            .starts = t.in[kStarts].data,
            .places = floats(kPlaces),
            .weights = weights.data,
            .projections = floats(kCameras),
            .imageSizes = floats(kImageSizes),
            .output = t.output(0),
        };
        const FeatureAggregationShape shape{
            .batch = features[0],
            .rows = features[1],
            .channels = features[2],
            .anchors = weights[1],
            .points = weights[2],
            .cameras = weights[3],
            .levels = weights[4],
            .groups = weights[5],
        };
        return featureAggregation(params, shape, stream);
    }
};

TRTSMITH_BIND(FeatureAggregation)

}  // namespace trtsmith
