// Non-maximum suppression: ports, shapes and sizes; the arithmetic is in kernels/.
#include "kernels/box_selection.cuh"

#include "ops/binding.hpp"

namespace trtsmith {

struct BoxSelection {
    static constexpr char const* kName = "BoxSelection";
    static constexpr char const* kVersion = "1";

    struct Params {
        int32_t centers;
        int32_t most;
    };
    static constexpr std::array<Field<Params>, 2> kFields{
        field<&Params::centers>("center_point_box"), field<&Params::most>("most")};
    static constexpr Signature<5, 2> kSignature{
        {{{"boxes", TypeVar::kF, 3}, {"scores", TypeVar::kF, 3}, {"max_output_boxes_per_class", TypeVar::kN, 1},
            {"iou_threshold", TypeVar::kF, 1}, {"score_threshold", TypeVar::kF, 1, true}}},
        {{{"selected", TypeVar::kN, 2}, {"count", TypeVar::kS, 0, false, true}}},
    };

    template <class D>
    static void sizes(Params const& p, Shape<D> const* in, int32_t, SizeBounds<D>* sizes)
    {
        Shape<D> const& scores = in[1];
        D const most = scores[0] * scores[1] * smaller(scores[2], int64_t{p.most});
        sizes[0] = {floorDiv(most + 1, 2), most};
    }

    template <class D>
    static void shape(Params const&, Shape<D> const*, int32_t, D const* sizes, Shape<D>* out)
    {
        out[0] = Shape<D>::of(sizes[0], constantLike(sizes[0], 3));
        out[1] = Shape<D>{};
    }

    static std::string check(Params const& p, Tensors const& t)
    {
        Tensor const& boxes = t.in[0];
        Tensor const& scores = t.in[1];
        if (boxes[2] != 4 || boxes[0] != scores[0] || boxes[1] != scores[2]) {
            return "boxes must be [batch, boxes, 4] and scores [batch, classes, boxes]";
        }
        for (int32_t i = 2; i < t.nbInputs; ++i) {
            if (t.in[static_cast<size_t>(i)][0] != 1) {
                return std::string(kSignature.inputs[static_cast<size_t>(i)].name) + " must have one element";
            }
        }
        return p.most < 0 ? "most must not be negative" : "";
    }

    static size_t workspace(Params const& p, Tensors const& t) { return boxSelectionWorkspace(kernelShape(p, t)); }

    static cudaError_t run(Params const& p, Tensors const& t, void* workspace, cudaStream_t stream)
    {
        BoxSelectionParams const params{
            .centers = p.centers != 0,
            .boxes = static_cast<float const*>(t.in[0].data),
            .scores = static_cast<float const*>(t.in[1].data),
            .maxBoxes = static_cast<int64_t const*>(t.in[2].data),
            .overlap = static_cast<float const*>(t.in[3].data),
            .floor = t.has(4) ? static_cast<float const*>(t.in[4].data) : nullptr,
            .selected = static_cast<int64_t*>(t.output(0)),
            .count = static_cast<int32_t*>(t.output(1)),
        };
        return boxSelection(params, kernelShape(p, t), workspace, stream);
    }

private:
    static BoxSelectionShape kernelShape(Params const& p, Tensors const& t)
    {
        Tensor const& scores = t.in[1];
        return {.batch = scores[0], .classes = scores[1], .boxes = scores[2], .most = p.most};
    }
};

TRTSMITH_BIND(BoxSelection)

}  // namespace trtsmith
