// Deformable RoI pooling: a launch of the kernel in kernels/.
#include "definitions/deformable_region_pool.hpp"

#include "ops/regions.hpp"

namespace trtsmith {

struct DeformableRegionPool : DeformableRegionPoolDefinition {
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
