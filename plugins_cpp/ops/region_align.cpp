// RoI align: ports, shapes and sizes; the arithmetic is in kernels/.
#include "ops/regions.hpp"

namespace trtsmith {

struct RegionAlign {
    static constexpr const char* kName = "RegionAlign";
    static constexpr const char* kVersion = "1";

    struct Params {
        int32_t output_height;
        int32_t output_width;
        float spatial_scale;
        int32_t sampling_ratio;
        int32_t aligned;
        int32_t pooling;
    };
    static constexpr std::array<Field<Params>, 6> kFields{
        field<&Params::output_height>("output_height", atLeast(1)),
        field<&Params::output_width>("output_width", atLeast(1)),
        field<&Params::spatial_scale>("spatial_scale"),
        field<&Params::sampling_ratio>("sampling_ratio"),
        field<&Params::aligned>("aligned", kZeroOrOne),
        field<&Params::pooling>("pooling", Range{0, 2}),
    };

    enum Input : size_t { kX, kRois };
    static constexpr Signature<2, 1> kSignature{
        {{{"x", TypeVar::kT, 4}, {"rois", TypeVar::kT, 2}}},
        {{{"output", TypeVar::kT, 4}}},
    };

    template <typename D>
    static void shape(const Params& params, const Shape<D>* in, int32_t, Shape<D>* out) {
        const D& count = in[kRois][0];
        out[0] = Shape<D>::of(count, in[kX][1], constantLike(count, params.output_height),
                              constantLike(count, params.output_width));
    }

    static std::string check(const Params& params, const Tensors& t) {
        const std::string fault = regionFault(params, t.in[kRois], 5);
        return fault.empty() ? mapFault(t.in[kX]) : fault;
    }

    static size_t workspace(const Params& params, const Tensors& t) {
        return regionAlignWorkspace(kernelParams(params, t), regionShape(params, t.in[kX], t.in[kRois]));
    }

    static cudaError_t run(const Params& params, const Tensors& t, void* workspace, cudaStream_t stream) {
        return regionAlign(kernelParams(params, t), regionShape(params, t.in[kX], t.in[kRois]), workspace, stream);
    }

private:
    static RegionAlignParams kernelParams(const Params& params, const Tensors& t) {
        RegionAlignParams p = regionParams(params, t.in[kRois], t.output(0));
        addLevel(p, t.in[kX], params.spatial_scale);
        p.pooling = static_cast<RegionPooling>(params.pooling);
        if (params.aligned == 0) {
            p.pixelOffset = 0.0F;
            p.leastSize = 1.0F;
        }
        return p;
    }
};

TRTSMITH_BIND(RegionAlign)

}  // namespace trtsmith
