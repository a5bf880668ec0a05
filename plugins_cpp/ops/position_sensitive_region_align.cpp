// Position-sensitive RoI align: a launch of the kernel in kernels/.
#include "definitions/position_sensitive_region_align.hpp"

#include "ops/regions.hpp"

namespace trtsmith {

struct PositionSensitiveRegionAlign : PositionSensitiveRegionAlignDefinition {
    static cudaError_t run(const Params& params, const Tensors& t, void*, cudaStream_t stream) {
        RegionAlignParams p = regionParams(params, t.in[kRois], t.output(0));
        addLevel(p, t.in[kX], params.spatial_scale);
        p.positionSensitive = true;
        RegionAlignShape shape = regionShape(params, t.in[kX], t.in[kRois]);
        shape.channels /= int64_t{params.output_height} * params.output_width;
        return regionAlign(p, shape, nullptr, stream);
    }
};

TRTSMITH_BIND(PositionSensitiveRegionAlign)

}  // namespace trtsmith
