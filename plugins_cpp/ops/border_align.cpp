// The largest of samples along each border of boxes: a launch of the kernel in kernels/.
#include "definitions/border_align.hpp"

#include "kernels/regions/border_align.cuh"
#include "ops/binding.hpp"
#include "ops/regions.hpp"

namespace trtsmith {

struct BorderAlign : BorderAlignDefinition {
    static size_t workspace(const Params& p, const Tensors& t) {
        return borderAlignWorkspace(kernelParams(p, t), kernelShape(t));
    }

    static cudaError_t run(const Params& p, const Tensors& t, void* workspace, cudaStream_t stream) {
        return borderAlign(kernelParams(p, t), kernelShape(t), workspace, stream);
    }

private:
    static BorderAlignParams kernelParams(const Params& p, const Tensors& t) {
        return {t.in[kX].type, t.in[kX].data, t.in[kBoxes].data, t.output(0), p.pool_size};
    }

    static BorderAlignShape kernelShape(const Tensors& t) {
        const Tensor& map = t.in[kX];
        return {map[0], map[1] / 4, map[2], map[3], t.in[kBoxes][1]};
    }
};

TRTSMITH_BIND(BorderAlign)

}  // namespace trtsmith
