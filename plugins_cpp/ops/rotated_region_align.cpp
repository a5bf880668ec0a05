// RoI align of rotated boxes: a launch of the kernel in kernels/.
#include "definitions/rotated_region_align.hpp"

#include "ops/regions.hpp"

namespace trtsmith {

struct RotatedRegionAlign : RotatedRegionAlignDefinition {
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
        p.boxes = RegionBoxes::kRotated;
        p.angleScale = angleScale(params.clockwise != 0, params.degrees != 0);
        if (params.aligned == 0) {
            p.pixelOffset = 0.0F;
            p.leastSize = 1.0F;
        }
        return p;
    }
};

TRTSMITH_BIND(RotatedRegionAlign)

}  // namespace trtsmith
