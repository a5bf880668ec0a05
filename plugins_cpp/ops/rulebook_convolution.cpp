// The convolution along a rulebook: ports, shapes and sizes; the arithmetic is in kernels/.
#include "kernels/sparse/rulebook_convolution.cuh"

#include <limits>

#include "ops/binding.hpp"

namespace trtsmith {

struct RulebookConvolution {
    static constexpr const char* kName = "RulebookConvolution";
    static constexpr const char* kVersion = "1";

    struct Params {
        int32_t activation;
        float slope;
    };
    static constexpr std::array<Field<Params>, 2> kFields{
        field<&Params::activation>("activation", Range{0, 3}),
        field<&Params::slope>("slope"),
    };

    enum Input : size_t { kFeatures, kWeights, kPairs, kBias };
    static constexpr Signature<4, 1> kSignature{
        {{{"features", TypeVar::kT, 2},
          {"weights", TypeVar::kT, 5},
          {"pairs", TypeVar::kS, 2},
          {"bias", TypeVar::kT, 1, true}}},
        {{{"output", TypeVar::kT, 2}}},
    };

    template <typename D>
    static void shape(const Params&, const Shape<D>* in, int32_t, Shape<D>* out) {
        out[0] = Shape<D>::of(in[kPairs][1], in[kWeights][0]);
    }

    static std::string check(const Params&, const Tensors& t) {
        constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max();
        constexpr int64_t kMaxTaps = int64_t{1} << 15;
        const Tensor& weights = t.in[kWeights];
        const int64_t taps = t.in[kPairs][0];
        if (taps > kMaxTaps || weights[1] > kMaxTaps || weights[2] > kMaxTaps || weights[3] > kMaxTaps ||
            weights[1] * weights[2] * weights[3] != taps) {
            return "pairs must have a row for each of at most 2^15 taps of weights";
        }
        if (weights[4] != t.in[kFeatures][1]) {
            return "features and weights differ in channels";
        }
        if (t.has(kBias) && t.in[kBias][0] != weights[0]) {
            return "bias must have one element for each filter";
        }
        if (weights[0] > kMaxInt - 128 || weights[4] > kMaxInt - 128) {
            return "there must be less than 2^31 - 128 filters and channels";
        }
        return t.in[kPairs][1] > kMaxInt ? "there must be less than 2^31 rows" : "";
    }

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
