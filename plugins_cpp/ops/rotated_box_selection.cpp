// Rotated non-maximum suppression: a launch of the kernel in kernels/.
#include "definitions/rotated_box_selection.hpp"

#include "kernels/selection/rotated_box_selection.cuh"
#include "ops/binding.hpp"
#include "ops/selected_boxes.hpp"

namespace trtsmith {

struct RotatedBoxSelection : RotatedBoxSelectionDefinition {
    static size_t workspace(const Params& p, const Tensors& t) {
        return rotatedBoxSelectionWorkspace(selectionShape(t, p.most));
    }

    static cudaError_t run(const Params& p, const Tensors& t, void* workspace, cudaStream_t stream) {
        const RotatedBoxSelectionParams params{
            .type = t.in[0].type,
            .boxes = t.in[0].data,
            .scores = t.in[1].data,
            .clockwise = p.clockwise != 0,
            .overlap = p.iou_threshold,
            .floor = p.score_threshold,
            .selected = static_cast<int64_t*>(t.output(0)),
            .count = static_cast<int32_t*>(t.output(1)),
        };
        return rotatedBoxSelection(params, selectionShape(t, p.most), workspace, stream);
    }
};

TRTSMITH_BIND(RotatedBoxSelection)

}  // namespace trtsmith
