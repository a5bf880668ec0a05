// Non-maximum suppression: ports, shapes and sizes; the arithmetic is in kernels/.
#include "kernels/box_selection.cuh"

#include "ops/binding.hpp"
#include "ops/selected_boxes.hpp"

namespace trtsmith {

struct BoxSelection {
    static constexpr const char* kName = "BoxSelection";
    static constexpr const char* kVersion = "1";

    struct Params {
        int32_t centers;
        int32_t most;
    };
    static constexpr std::array<Field<Params>, 2> kFields{field<&Params::centers>("center_point_box", kZeroOrOne),
                                                          field<&Params::most>("most", atLeast(0))};
    static constexpr Signature<5, 2> kSignature{
        {{{"boxes", TypeVar::kF, 3},
          {"scores", TypeVar::kF, 3},
          {"max_output_boxes_per_class", TypeVar::kN, 1},
          {"iou_threshold", TypeVar::kF, 1},
          {"score_threshold", TypeVar::kF, 1, true}}},
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

    static std::string check(const Params&, const Tensors& t) {
        std::string fault = selectionFault(t, 4);
        for (int32_t i = 2; i < t.nbInputs && fault.empty(); ++i) {
            if (t.in[static_cast<size_t>(i)][0] != 1) {
                fault = std::string(kSignature.inputs[static_cast<size_t>(i)].name) + " must have one element";
            }
        }
        return fault;
    }

    static size_t workspace(const Params& p, const Tensors& t) {
        return boxSelectionWorkspace(selectionShape(t, p.most));
    }

    static cudaError_t run(const Params& p, const Tensors& t, void* workspace, cudaStream_t stream) {
        const BoxSelectionParams params{
            .centers = p.centers != 0,
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
