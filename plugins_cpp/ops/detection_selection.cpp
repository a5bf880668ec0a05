// Non-maximum suppression with a fixed number of rows: ports, shapes and sizes; the arithmetic is in kernels/.
#include "kernels/selection/detection_selection.cuh"

#include "ops/binding.hpp"

namespace trtsmith {

struct DetectionSelection {
    static constexpr const char* kName = "DetectionSelection";
    static constexpr const char* kVersion = "1";

    struct Params {
        float scoreThreshold;
        float iouThreshold;
        int32_t inclusive;
        int32_t most;
        int32_t topk;
        int32_t background;
        int32_t classAgnostic;
        int32_t centers;
        int32_t probIou;
        int32_t polygonIou;
        int32_t pixels;
        int32_t clip;
        int32_t classMajor;
        int32_t zeroFiller;
    };
    static constexpr std::array<Field<Params>, 14> kFields{
        field<&Params::scoreThreshold>("score_threshold"),
        field<&Params::iouThreshold>("iou_threshold"),
        field<&Params::inclusive>("inclusive", kZeroOrOne),
        field<&Params::most>("max_output_boxes", atLeast(1)),
        field<&Params::topk>("topk"),
        field<&Params::background>("background_class"),
        field<&Params::classAgnostic>("class_agnostic", kZeroOrOne),
        field<&Params::centers>("box_coding", kZeroOrOne),
        field<&Params::probIou>("prob_iou", kZeroOrOne),
        field<&Params::polygonIou>("polygon_iou", kZeroOrOne),
        field<&Params::pixels>("pixels", kZeroOrOne),
        field<&Params::clip>("clip", kZeroOrOne),
        field<&Params::classMajor>("class_major", kZeroOrOne),
        field<&Params::zeroFiller>("zero_filler", kZeroOrOne),
    };

    static constexpr Signature<2, 5> kSignature{
        {{{"boxes", TypeVar::kT, kAnyRank}, {"scores", TypeVar::kT, kAnyRank}}},
        {{{"num_detections", TypeVar::kS, 2},
          {"detection_boxes", TypeVar::kT, 3},
          {"detection_scores", TypeVar::kT, 2},
          {"detection_classes", TypeVar::kS, 2},
          {"detection_indices", TypeVar::kS, 2}}},
    };

    template <typename D>
    static void shape(const Params& p, const Shape<D>* in, int32_t, Shape<D>* out) {
        const D& batch = in[1][0];
        const D most = constantLike(batch, p.most);
        out[0] = Shape<D>::of(batch, constantLike(batch, 1));
        out[1] = Shape<D>::of(batch, most, constantLike(batch, columns(p)));
        for (int32_t i = 2; i < 5; ++i) {
            out[i] = Shape<D>::of(batch, most);
        }
    }

    static std::string check(const Params& p, const Tensors& t) {
        const Shape<int64_t>& boxes = t.in[0].shape;
        const Shape<int64_t>& scores = t.in[1].shape;
        const bool boxRank = boxes.rank == 3 || boxes.rank == 4;
        const bool scoreRank = scores.rank == 3 || (scores.rank == 4 && scores[3] == 1);
        if (!boxRank || !scoreRank || boxes[boxes.rank - 1] != columns(p) || boxes[0] != scores[0] ||
            boxes[1] != scores[1] || (boxes.rank == 4 && boxes[2] != 1 && boxes[2] != scores[2])) {
            return "boxes must be [N, B, 4] or [N, B, 1 or C, 4], rotated ones of 5 numbers, and scores [N, B, C] or "
                   "[N, B, C, 1]";
        }
        if (p.polygonIou != 0 && (p.probIou != 0 || p.centers != 0 || p.pixels != 0 || p.clip != 0)) {
            return "polygon_iou goes without prob_iou, box_coding, pixels and clip";
        }
        return {};
    }

    static size_t workspace(const Params& p, const Tensors& t) {
        return detectionSelectionWorkspace(kernelShape(p, t));
    }

    static cudaError_t run(const Params& p, const Tensors& t, void* workspace, cudaStream_t stream) {
        const DetectionSelectionParams params{
            .type = t.in[0].type,
            .boxes = t.in[0].data,
            .scores = t.in[1].data,
            .scoreThreshold = p.scoreThreshold,
            .overlap = p.iouThreshold,
            .inclusive = p.inclusive != 0,
            .classAgnostic = p.classAgnostic != 0,
            .centers = p.centers != 0,
            .kind = p.polygonIou != 0 ? BoxKind::kPolygons
                    : p.probIou != 0  ? BoxKind::kProbIou
                                      : BoxKind::kUpright,
            .pixels = p.pixels != 0,
            .clip = p.clip != 0,
            .classMajor = p.classMajor != 0,
            .background = p.background,
            .filler = p.zeroFiller != 0 ? 0 : -1,
            .number = static_cast<int32_t*>(t.output(0)),
            .outBoxes = t.output(1),
            .outScores = t.output(2),
            .outClasses = static_cast<int32_t*>(t.output(3)),
            .outIndices = static_cast<int32_t*>(t.output(4)),
        };
        return detectionSelection(params, kernelShape(p, t), workspace, stream);
    }

private:
    static int32_t columns(const Params& p) { return p.probIou != 0 || p.polygonIou != 0 ? 5 : 4; }

    static DetectionSelectionShape kernelShape(const Params& p, const Tensors& t) {
        const Shape<int64_t>& boxes = t.in[0].shape;
        const Shape<int64_t>& scores = t.in[1].shape;
        return {.batch = scores[0],
                .boxes = scores[1],
                .classes = scores[2],
                .groups = boxes.rank == 4 ? boxes[2] : 1,
                .most = p.most,
                .topk = p.topk};
    }
};

TRTSMITH_BIND(DetectionSelection)

}  // namespace trtsmith
