// Non-maximum suppression: a launch of the kernel in kernels/.
#include "definitions/box_selection.hpp"

#include "kernels/box_selection.cuh"
#include "ops/binding.hpp"
#include "ops/selected_boxes.hpp"

namespace trtsmith {

struct BoxSelection : BoxSelectionDefinition {
    static size_t workspace(const Params& p, const Tensors& t) {
        return boxSelectionWorkspace(selectionShape(t, p.most));
    }

    static cudaError_t run(const Params& p, const Tensors& t, void* workspace, cudaStream_t stream) {
        const BoxSelectionParams params{
            .centers = p.center_point_box != 0,
            .boxes = static_cast<const float*>(t.in[0].data),
            .scores = static_cast<const float*>(t.in[1].data),
            .maxBoxes = static_cast<const int64_t*>(t.in[2].data),
            .overlap = static_cast<const float*>(t.in[3].data),
            .floor = t.has(4) ? static_cast<const float*>(t.in[4].data) : nullptr,
            .selected = static_cast<int64_t*>(t.output(0)),
            .count = static_cast<int32_t*>(t.output(1)),
        };
        return boxSelection(params, selectionShape(t, p.most), workspace, stream);
    }
};

TRTSMITH_BIND(BoxSelection)

}  // namespace trtsmith
