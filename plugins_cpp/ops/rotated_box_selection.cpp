// Rotated non-maximum suppression: ports, shapes and sizes; the arithmetic is in kernels/.
#include "kernels/selection/rotated_box_selection.cuh"

#include "ops/binding.hpp"

namespace trtsmith {

struct RotatedBoxSelection {
    static constexpr const char* kName = "RotatedBoxSelection";
    static constexpr const char* kVersion = "1";

    struct Params {
        float overlap;
        float floor;
        int32_t clockwise;
        int32_t most;
    };
    static constexpr std::array<Field<Params>, 4> kFields{
        field<&Params::overlap>("iou_threshold"), field<&Params::floor>("score_threshold"),
        field<&Params::clockwise>("clockwise", kZeroOrOne), field<&Params::most>("most", atLeast(0))};
    static constexpr Signature<2, 2> kSignature{
        {{{"boxes", TypeVar::kT, 3}, {"scores", TypeVar::kT, 3}}},
        {{{"selected", TypeVar::kN, 2}, {"count", TypeVar::kS, 0, false, true}}},
    };

    template <typename D>
    static void sizes(const Params& p, const Shape<D>* in, int32_t, SizeBounds<D>* sizes) {
        const Shape<D>& scores = in[1];
        const D most = scores[0] * scores[1] * smaller(scores[2], int64_t{p.most});
        sizes[0] = {floorDiv(most + 1, 2), most};
    }

    template <typename D>
    static void shape(const Params&, const Shape<D>*, int32_t, const D* sizes, Shape<D>* out) {
        out[0] = Shape<D>::of(sizes[0], constantLike(sizes[0], 3));
        out[1] = Shape<D>{};
    }

    static std::string check(const Params&, const Tensors& t) {
        const Tensor& boxes = t.in[0];
        const Tensor& scores = t.in[1];
        if (boxes[2] != 5 || boxes[0] != scores[0] || boxes[1] != scores[2]) {
            return "boxes must be [batch, boxes, 5] and scores [batch, classes, boxes]";
        }
        return {};
    }

    static size_t workspace(const Params& p, const Tensors& t) {
        return rotatedBoxSelectionWorkspace(kernelShape(p, t));
    }

    static cudaError_t run(const Params& p, const Tensors& t, void* workspace, cudaStream_t stream) {
        const RotatedBoxSelectionParams params{
            .type = t.in[0].type,
            .boxes = t.in[0].data,
            .scores = t.in[1].data,
            .clockwise = p.clockwise != 0,
            .overlap = p.overlap,
            .floor = p.floor,
            .selected = static_cast<int64_t*>(t.output(0)),
            .count = static_cast<int32_t*>(t.output(1)),
        };
        return rotatedBoxSelection(params, kernelShape(p, t), workspace, stream);
    }

private:
    static BoxSelectionShape kernelShape(const Params& p, const Tensors& t) {
        const Tensor& scores = t.in[1];
        return {.batch = scores[0], .classes = scores[1], .boxes = scores[2], .most = p.most};
    }
};

TRTSMITH_BIND(RotatedBoxSelection)

}  // namespace trtsmith
