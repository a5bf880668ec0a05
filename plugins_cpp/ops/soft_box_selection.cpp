// Soft non-maximum suppression: ports, shapes and sizes; the arithmetic is in kernels/.
#include "kernels/selection/soft_box_selection.cuh"

#include "ops/binding.hpp"

namespace trtsmith {

struct SoftBoxSelection {
    static constexpr const char* kName = "SoftBoxSelection";
    static constexpr const char* kVersion = "1";

    struct Params {
        float overlap;
        float sigma;
        float least;
        int32_t method;
        int32_t offset;
    };
    static constexpr std::array<Field<Params>, 5> kFields{
        field<&Params::overlap>("iou_threshold"), field<&Params::sigma>("sigma"), field<&Params::least>("min_score"),
        field<&Params::method>("method", Range{0, 2}), field<&Params::offset>("offset", kZeroOrOne)};
    static constexpr Signature<2, 3> kSignature{
        {{{"boxes", TypeVar::kT, 2}, {"scores", TypeVar::kT, 1}}},
        {{{"dets", TypeVar::kT, 2}, {"inds", TypeVar::kN, 1}, {"count", TypeVar::kS, 0, false, true}}},
    };

    template <typename D>
    static void sizes(const Params&, const Shape<D>* in, int32_t, SizeBounds<D>* sizes) {
        const D& most = in[1][0];
        sizes[0] = {floorDiv(most + 1, 2), most};
    }

    template <typename D>
    static void shape(const Params&, const Shape<D>*, int32_t, const D* sizes, Shape<D>* out) {
        out[0] = Shape<D>::of(sizes[0], constantLike(sizes[0], 5));
        out[1] = Shape<D>::of(sizes[0]);
        out[2] = Shape<D>{};
    }

    static std::string check(const Params&, const Tensors& t) {
        if (t.in[0][1] != 4 || t.in[0][0] != t.in[1][0]) {
            return "boxes must be [boxes, 4] and scores [boxes]";
        }
        return {};
    }

    static size_t workspace(const Params&, const Tensors& t) { return softBoxSelectionWorkspace(t.in[1][0]); }

    static cudaError_t run(const Params& p, const Tensors& t, void* workspace, cudaStream_t stream) {
        const SoftBoxSelectionParams params{
            .type = t.in[0].type,
            .boxes = t.in[0].data,
            .scores = t.in[1].data,
            .overlap = p.overlap,
            .sigma = p.sigma,
            .least = p.least,
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
