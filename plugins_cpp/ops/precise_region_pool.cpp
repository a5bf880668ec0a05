// Precise RoI pooling: a launch of the kernel in kernels/.
#include "definitions/precise_region_pool.hpp"

#include "kernels/regions/precise_region_pool.cuh"
#include "ops/binding.hpp"
#include "ops/regions.hpp"

namespace trtsmith {

struct PreciseRegionPool : PreciseRegionPoolDefinition {
    static cudaError_t run(const Params& p, const Tensors& t, void*, cudaStream_t stream) {
        const Tensor& map = t.in[kX];
        const PreciseRegionPoolParams params{map.type, map.data, t.in[kRois].data, t.output(0), p.spatial_scale};
        const PreciseRegionPoolShape shape{map[0],         map[1],          map[2],        map[3],
                                           t.in[kRois][0], p.output_height, p.output_width};
        return preciseRegionPool(params, shape, stream);
    }
};

TRTSMITH_BIND(PreciseRegionPool)

}  // namespace trtsmith
