// Position-sensitive RoI align: ports, shapes and sizes; the arithmetic is in kernels/.
#include "ops/regions.hpp"

namespace trtsmith {

struct PositionSensitiveRegionAlign {
    static constexpr const char* kName = "PositionSensitiveRegionAlign";
    static constexpr const char* kVersion = "1";

    struct Params {
        int32_t output_height;
        int32_t output_width;
        float spatial_scale;
        int32_t sampling_ratio;
    };
    static constexpr std::array<Field<Params>, 4> kFields{
        field<&Params::output_height>("output_height", atLeast(1)),
        field<&Params::output_width>("output_width", atLeast(1)),
        field<&Params::spatial_scale>("spatial_scale"),
        field<&Params::sampling_ratio>("sampling_ratio"),
    };

    enum Input : size_t { kX, kRois };
    static constexpr Signature<2, 1> kSignature{
        {{{"x", TypeVar::kT, 4}, {"rois", TypeVar::kT, 2}}},
        {{{"output", TypeVar::kT, 4}}},
    };

    static int64_t bins(const Params& params) { return int64_t{params.output_height} * params.output_width; }

    template <typename D>
    static void shape(const Params& params, const Shape<D>* in, int32_t, Shape<D>* out) {
        const D& count = in[kRois][0];
        out[0] = Shape<D>::of(count, floorDiv(in[kX][1], bins(params)), constantLike(count, params.output_height),
                              constantLike(count, params.output_width));
    }

    static std::string check(const Params& params, const Tensors& t) {
        if (t.in[kX][1] % bins(params) != 0) {
            return "x has " + std::to_string(t.in[kX][1]) + " channels, which " + std::to_string(bins(params)) +
                   " bins do not divide";
        }
        const std::string fault = regionFault(params, t.in[kRois], 5);
        return fault.empty() ? mapFault(t.in[kX]) : fault;
    }

    static cudaError_t run(const Params& params, const Tensors& t, void*, cudaStream_t stream) {
        RegionAlignParams p = regionParams(params, t.in[kRois], t.output(0));
        addLevel(p, t.in[kX], params.spatial_scale);
        p.positionSensitive = true;
        RegionAlignShape shape = regionShape(params, t.in[kX], t.in[kRois]);
        shape.channels /= bins(params);
        return regionAlign(p, shape, nullptr, stream);
    }
};

TRTSMITH_BIND(PositionSensitiveRegionAlign)

}  // namespace trtsmith
