// Deformable RoI pooling: ports, shapes and sizes; the arithmetic is in kernels/.
#include "ops/regions.hpp"

namespace trtsmith {

struct DeformableRegionPool {
    static constexpr const char* kName = "DeformableRegionPool";
    static constexpr const char* kVersion = "1";

    struct Params {
        int32_t output_height;
        int32_t output_width;
        float spatial_scale;
        int32_t sampling_ratio;
        float gamma;
    };
    static constexpr std::array<Field<Params>, 5> kFields{
        field<&Params::output_height>("output_height", atLeast(1)),
        field<&Params::output_width>("output_width", atLeast(1)),
        field<&Params::spatial_scale>("spatial_scale"),
        field<&Params::sampling_ratio>("sampling_ratio"),
        field<&Params::gamma>("gamma"),
    };

    enum Input : size_t { kX, kRois, kOffset };
    static constexpr Signature<3, 1> kSignature{
        {{{"x", TypeVar::kT, 4}, {"rois", TypeVar::kT, 2}, {"offset", TypeVar::kT, 4, true}}},
        {{{"output", TypeVar::kT, 4}}},
    };

    template <typename D>
    static void shape(const Params& params, const Shape<D>* in, int32_t, Shape<D>* out) {
        const D& count = in[kRois][0];
        out[0] = Shape<D>::of(count, in[kX][1], constantLike(count, params.output_height),
                              constantLike(count, params.output_width));
    }

    static std::string check(const Params& params, const Tensors& t) {
        if (t.has(kOffset)) {
            const Tensor& offset = t.in[kOffset];
            const bool fits = offset[0] == t.in[kRois][0] && offset[1] == 2 && offset[2] == params.output_height &&
                              offset[3] == params.output_width;
            if (!fits) {
                return "offset must have shape [K, 2, output_height, output_width]";
            }
        }
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
        p.offsets = t.has(kOffset) ? t.in[kOffset].data : nullptr;
        p.offsetScale = params.gamma;
        return p;
    }
};

TRTSMITH_BIND(DeformableRegionPool)

}  // namespace trtsmith
