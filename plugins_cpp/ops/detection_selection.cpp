// Non-maximum suppression with a fixed number of rows: a launch of the kernel in kernels/.
#include "definitions/detection_selection.hpp"

#include "kernels/selection/detection_selection.cuh"
#include "ops/binding.hpp"

namespace trtsmith {

struct DetectionSelection : DetectionSelectionDefinition {
    static size_t workspace(const Params& p, const Tensors& t) {
        return detectionSelectionWorkspace(kernelShape(p, t));
    }

    static cudaError_t run(const Params& p, const Tensors& t, void* workspace, cudaStream_t stream) {
        const DetectionSelectionParams params{
            .type = t.in[0].type,
            .boxes = t.in[0].data,
            .scores = t.in[1].data,
            .scoreThreshold = p.score_threshold,
            .overlap = p.iou_threshold,
            .inclusive = p.inclusive != 0,
            .classAgnostic = p.class_agnostic != 0,
            .centers = p.box_coding != 0,
            .kind = p.polygon_iou != 0 ? BoxKind::kPolygons
                    : p.prob_iou != 0  ? BoxKind::kProbIou
                                       : BoxKind::kUpright,
            .pixels = p.pixels != 0,
            .clip = p.clip != 0,
            .classMajor = p.class_major != 0,
            .background = p.background_class,
            .filler = p.zero_filler != 0 ? 0 : -1,
            .number = static_cast<int32_t*>(t.output(0)),
            .outBoxes = t.output(1),
            .outScores = t.output(2),
            .outClasses = static_cast<int32_t*>(t.output(3)),
            .outIndices = static_cast<int32_t*>(t.output(4)),
        };
        return detectionSelection(params, kernelShape(p, t), workspace, stream);
    }

private:
    static DetectionSelectionShape kernelShape(const Params& p, const Tensors& t) {
        const Shape<int64_t>& boxes = t.in[0].shape;
        const Shape<int64_t>& scores = t.in[1].shape;
        return {.batch = scores[0],
                .boxes = scores[1],
                .classes = scores[2],
                .groups = boxes.rank == 4 ? boxes[2] : 1,
                .most = p.max_output_boxes,
                .topk = p.topk};
    }
};

TRTSMITH_BIND(DetectionSelection)

}  // namespace trtsmith
