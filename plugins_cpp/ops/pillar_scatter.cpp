// Features of pillars laid out on their grid: ports, shapes and sizes; the arithmetic is in kernels/.
#include "kernels/bev/pillar_scatter.cuh"

#include <limits>

#include "ops/binding.hpp"

namespace trtsmith {

struct PillarScatter {
    static constexpr const char* kName = "PillarScatter";
    static constexpr const char* kVersion = "1";

    struct Params {
        int32_t output_height;
        int32_t output_width;
    };
    static constexpr std::array<Field<Params>, 2> kFields{
        field<&Params::output_height>("output_height", atLeast(1)),
        field<&Params::output_width>("output_width", atLeast(1)),
    };

    enum Input : size_t { kFeatures, kCoords, kCounts };
    static constexpr Signature<3, 1> kSignature{
        {{{"features", TypeVar::kT, 3}, {"coords", TypeVar::kS, 3}, {"counts", TypeVar::kS, 1}}},
        {{{"output", TypeVar::kT, 4}}},
    };

    template <typename D>
    static void shape(const Params& p, const Shape<D>* in, int32_t, Shape<D>* out) {
        const D& frames = in[kFeatures][0];
        out[0] = Shape<D>::of(frames, in[kFeatures][2], constantLike(frames, p.output_height),
                              constantLike(frames, p.output_width));
    }

    static std::string check(const Params&, const Tensors& t) {
        const Tensor& features = t.in[kFeatures];
        const Tensor& coords = t.in[kCoords];
        if (coords[0] != features[0] || t.in[kCounts][0] != features[0]) {
            return "features, coords and counts differ in frames";
        }
        if (coords[1] != features[1]) {
            return "features and coords differ in pillars";
        }
        if (coords[2] != 4) {
            return "coords has " + std::to_string(coords[2]) + " numbers for each pillar; expected 4";
        }
        return features[1] > std::numeric_limits<int32_t>::max() ? "there must be less than 2^31 pillars" : "";
    }

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
