// Rotated non-maximum suppression: ports, shapes and sizes; the arithmetic is in kernels/.
#include "kernels/selection/rotated_box_selection.cuh"

#include "ops/binding.hpp"
#include "ops/selected_boxes.hpp"

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
        sizes[0] = selectedBounds(in, p.most);
    }

    template <typename D>
    static void shape(const Params&, const Shape<D>*, int32_t, const D* sizes, Shape<D>* out) {
        selectedShapes(sizes[0], out);
    }

    static std::string check(const Params&, const Tensors& t) { return selectionFault(t, 5); }

    static size_t workspace(const Params& p, const Tensors& t) {
        return rotatedBoxSelectionWorkspace(selectionShape(t, p.most));
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
        return rotatedBoxSelection(params, selectionShape(t, p.most), workspace, stream);
    }
};

TRTSMITH_BIND(RotatedBoxSelection)

}  // namespace trtsmith
