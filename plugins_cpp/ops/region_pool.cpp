// RoI pooling by whole pixels: a launch of the kernel in kernels/.
#include "kernels/regions/region_pool.cuh"

#include "definitions/region_pool.hpp"
#include "ops/binding.hpp"

namespace trtsmith {

struct RegionPool : RegionPoolDefinition {
    static cudaError_t run(const Params& p, const Tensors& t, void*, cudaStream_t stream) {
        const Tensor& map = t.in[kX];
        const RegionPoolParams params{map.type,    map.data,        t.in[kRois].data,
                                      t.output(0), p.spatial_scale, p.by_position != 0};
        const RegionPoolShape shape{map[0], map[1], map[2], map[3], t.in[kRois][0], p.output_height, p.output_width};
        return regionPool(params, shape, stream);
    }
};

TRTSMITH_BIND(RegionPool)

}  // namespace trtsmith
