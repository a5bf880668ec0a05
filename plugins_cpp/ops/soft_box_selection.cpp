// Soft non-maximum suppression: a launch of the kernel in kernels/.
#include "definitions/soft_box_selection.hpp"

#include "kernels/selection/soft_box_selection.cuh"
#include "ops/binding.hpp"

namespace trtsmith {

struct SoftBoxSelection : SoftBoxSelectionDefinition {
    static size_t workspace(const Params&, const Tensors& t) { return softBoxSelectionWorkspace(t.in[1][0]); }

    static cudaError_t run(const Params& p, const Tensors& t, void* workspace, cudaStream_t stream) {
        const SoftBoxSelectionParams params{
            .type = t.in[0].type,
            .boxes = t.in[0].data,
            .scores = t.in[1].data,
            .overlap = p.iou_threshold,
            .sigma = p.sigma,
            .least = p.min_score,
            .offset = static_cast<float>(p.offset),
            .softness = static_cast<Softness>(p.method),
            .dets = t.output(0),
            .inds = static_cast<int64_t*>(t.output(1)),
            .count = static_cast<int32_t*>(t.output(2)),
        };
        return softBoxSelection(params, t.in[1][0], workspace, stream);
    }
};

TRTSMITH_BIND(SoftBoxSelection)

}  // namespace trtsmith
