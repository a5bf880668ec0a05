// Sampling of volumes at points: a launch of the kernel in kernels/.
#include "definitions/volume_sampling.hpp"

#include "kernels/sampling/volume_sampling.cuh"
#include "ops/binding.hpp"

namespace trtsmith {

struct VolumeSampling : VolumeSamplingDefinition {
    static size_t workspace(const Params& p, const Tensors& t) {
        return volumeSamplingWorkspace(t.in[kX].type, kernelShape(p, t));
    }

    static cudaError_t run(const Params& p, const Tensors& t, void* workspace, cudaStream_t stream) {
        const VolumeSamplingParams params{
            .type = t.in[kX].type,
            .x = t.in[kX].data,
            .grid = t.in[kGrid].data,
            .output = t.output(0),
        };
        return volumeSampling(params, kernelShape(p, t), workspace, stream);
    }

private:
    static VolumeSamplingShape kernelShape(const Params& p, const Tensors& t) {
        const Tensor& x = t.in[kX];
        const Tensor& grid = t.in[kGrid];
        return {
            .batch = x[0],
            .channels = x[1],
            .depth = x[2],
            .height = x[3],
            .width = x[4],
            .points = grid[1] * grid[2] * grid[3],
            .nearest = p.interpolation == 1,
            .padding = static_cast<VolumePadding>(p.padding),
            .aligned = p.align_corners == 1,
        };
    }
};

TRTSMITH_BIND(VolumeSampling)

}  // namespace trtsmith
