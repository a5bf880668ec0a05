// The convolution along a rulebook: a launch of the kernel in kernels/.
#include "definitions/rulebook_convolution.hpp"

#include "kernels/sparse/rulebook_convolution.cuh"
#include "ops/binding.hpp"

namespace trtsmith {

struct RulebookConvolution : RulebookConvolutionDefinition {
    static cudaError_t run(const Params& p, const Tensors& t, void*, cudaStream_t stream) {
        const Tensor& features = t.in[kFeatures];
        const RulebookConvolutionParams params{
            .type = features.type,
            .features = features.data,
            .weights = t.in[kWeights].data,
            .pairs = static_cast<const int32_t*>(t.in[kPairs].data),
            .bias = t.has(kBias) ? t.in[kBias].data : nullptr,
            .output = t.output(0),
            .activation = static_cast<RulebookActivation>(p.activation),
            .slope = p.slope,
        };
        const RulebookConvolutionShape shape{
            .inputs = features[0],
            .channels = features[1],
            .taps = t.in[kPairs][0],
            .rows = t.in[kPairs][1],
            .filters = t.in[kWeights][0],
        };
        return rulebookConvolution(params, shape, stream);
    }
};

TRTSMITH_BIND(RulebookConvolution)

}  // namespace trtsmith
