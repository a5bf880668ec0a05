// Slices at which a condition holds: ports, shapes and sizes; the arithmetic is in kernels/.
#include "kernels/selected_slices.cuh"

#include "ops/binding.hpp"
#include "ops/slice_axis.hpp"

namespace trtsmith {

struct SelectedSlices {
    static constexpr const char* kName = "SelectedSlices";
    static constexpr const char* kVersion = "1";

    struct Params {
        int32_t axis;
    };
    static constexpr std::array<Field<Params>, 1> kFields{field<&Params::axis>("axis")};
    static constexpr Signature<2, 2> kSignature{
        {{{"x", TypeVar::kE, kAnyRank}, {"condition", TypeVar::kB, 1}}},
        {{{"output", TypeVar::kE, kAnyRank}, {"count", TypeVar::kS, 0, false, true}}},
    };

    template <typename D>
    static void sizes(const Params& p, const Shape<D>* in, int32_t, SizeBounds<D>* sizes) {
        const D most = smaller(in[0][axisOf(in[0], p.axis)], in[1][0]);
        sizes[0] = {floorDiv(most + 1, 2), most};
    }

    template <typename D>
    static void shape(const Params& p, const Shape<D>* in, int32_t, const D* sizes, Shape<D>* out) {
        out[0] = in[0];
        out[0][axisOf(in[0], p.axis)] = sizes[0];
        out[1] = Shape<D>{};
    }

    static std::string check(const Params& p, const Tensors& t) { return axisFault(t.in[0].shape, p.axis); }

    static size_t workspace(const Params& p, const Tensors& t) {
        return selectedSlicesWorkspace(slicesAlong(t.in[0].shape, p.axis), t.in[1][0]);
    }

    static cudaError_t run(const Params& p, const Tensors& t, void* workspace, cudaStream_t stream) {
        const SelectedSlicesParams params{
            .elementBytes = bytesOf(t.in[0].type),
            .x = t.in[0].data,
            .condition = static_cast<const bool*>(t.in[1].data),
            .length = t.in[1][0],
            .output = t.output(0),
            .count = static_cast<int32_t*>(t.output(1)),
        };
        return selectedSlices(params, slicesAlong(t.in[0].shape, p.axis), workspace, stream);
    }
};

TRTSMITH_BIND(SelectedSlices)

}  // namespace trtsmith
