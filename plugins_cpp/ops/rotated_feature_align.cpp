// Samples of a map at each pixel's own rotated box: a launch of the kernel in kernels/.
#include "definitions/rotated_feature_align.hpp"

#include "kernels/regions/rotated_feature_align.cuh"
#include "ops/binding.hpp"
#include "ops/regions.hpp"

namespace trtsmith {

struct RotatedFeatureAlign : RotatedFeatureAlignDefinition {
    static size_t workspace(const Params& p, const Tensors& t) {
        return rotatedFeatureAlignWorkspace(kernelParams(p, t), kernelShape(t));
    }

    static cudaError_t run(const Params& p, const Tensors& t, void* workspace, cudaStream_t stream) {
        return rotatedFeatureAlign(kernelParams(p, t), kernelShape(t), workspace, stream);
    }

private:
    static RotatedFeatureAlignParams kernelParams(const Params& p, const Tensors& t) {
        return {t.in[kX].type, t.in[kX].data, t.in[kBoxes].data, t.output(0), p.spatial_scale, p.points};
    }

    static RotatedFeatureAlignShape kernelShape(const Tensors& t) {
        const Tensor& map = t.in[kX];
        return {map[0], map[1], map[2], map[3]};
    }
};

TRTSMITH_BIND(RotatedFeatureAlign)

}  // namespace trtsmith
