// Precise RoI pooling: ports, shapes and sizes; the arithmetic is in kernels/.
#include "kernels/regions/precise_region_pool.cuh"

#include "ops/binding.hpp"
#include "ops/regions.hpp"

namespace trtsmith {

struct PreciseRegionPool {
    static constexpr const char* kName = "PreciseRegionPool";
    static constexpr const char* kVersion = "1";

    struct Params {
        int32_t output_height;
        int32_t output_width;
        float spatial_scale;
    };
    static constexpr std::array<Field<Params>, 3> kFields{
        field<&Params::output_height>("output_height", atLeast(1)),
        field<&Params::output_width>("output_width", atLeast(1)),
        field<&Params::spatial_scale>("spatial_scale"),
    };

    enum Input : size_t { kMap, kRegions };
    static constexpr Signature<2, 1> kSignature{
        {{{"x", TypeVar::kT, 4}, {"rois", TypeVar::kT, 2}}},
        {{{"output", TypeVar::kT, 4}}},
    };

    template <typename D>
    static void shape(const Params& p, const Shape<D>* in, int32_t, Shape<D>* out) {
        const D& regions = in[kRegions][0];
        out[0] = Shape<D>::of(regions, in[kMap][1], constantLike(regions, p.output_height),
                              constantLike(regions, p.output_width));
    }

    static std::string check(const Params&, const Tensors& t) {
        if (t.in[kRegions][1] != 5) {
            return "rois has " + std::to_string(t.in[kRegions][1]) + " numbers for each region; expected 5";
        }
        return mapFault(t.in[kMap]);
    }

    static size_t workspace(const Params&, const Tensors&) { return 0; }

    static cudaError_t run(const Params& p, const Tensors& t, void*, cudaStream_t stream) {
        const Tensor& map = t.in[kMap];
        const PreciseRegionPoolParams params{map.type, map.data, t.in[kRegions].data, t.output(0), p.spatial_scale};
        const PreciseRegionPoolShape shape{map[0],          map[1],        map[2], map[3], t.in[kRegions][0],
                                           p.output_height, p.output_width};
        return preciseRegionPool(params, shape, stream);
    }
};

TRTSMITH_BIND(PreciseRegionPool)

}  // namespace trtsmith
