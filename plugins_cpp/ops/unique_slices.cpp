// The different slices of a tensor: ports, shapes and sizes; the arithmetic is in kernels/.
#include "kernels/unique_slices.cuh"

#include "ops/binding.hpp"
#include "ops/slice_axis.hpp"

namespace trtsmith {

struct UniqueSlices {
    static constexpr const char* kName = "UniqueSlices";
    static constexpr const char* kVersion = "1";

    struct Params {
        int32_t axis;
        int32_t sorted;
    };
    static constexpr std::array<Field<Params>, 2> kFields{field<&Params::axis>("axis"),
                                                          field<&Params::sorted>("sorted", kZeroOrOne)};
    static constexpr Signature<1, 5> kSignature{
        {{{"x", TypeVar::kE, kAnyRank}}},
        {{{"output", TypeVar::kE, kAnyRank},
          {"first", TypeVar::kN, 1},
          {"inverse", TypeVar::kN, 1},
          {"counts", TypeVar::kN, 1},
          {"count", TypeVar::kS, 0, false, true}}},
    };

    template <typename D>
    static void sizes(const Params& p, const Shape<D>* in, int32_t, SizeBounds<D>* sizes) {
        const D most = in[0][axisOf(in[0], p.axis)];
        sizes[0] = {floorDiv(most + 1, 2), most};
    }

    template <typename D>
    static void shape(const Params& p, const Shape<D>* in, int32_t, const D* sizes, Shape<D>* out) {
        const int32_t axis = axisOf(in[0], p.axis);
        out[0] = in[0];
        out[0][axis] = sizes[0];
        out[1] = out[3] = Shape<D>::of(sizes[0]);
        out[2] = Shape<D>::of(in[0][axis]);
        out[4] = Shape<D>{};
    }

    static std::string check(const Params& p, const Tensors& t) { return axisFault(t.in[0].shape, p.axis); }

    static size_t workspace(const Params& p, const Tensors& t) {
        return uniqueSlicesWorkspace(slicesAlong(t.in[0].shape, p.axis));
    }

    static cudaError_t run(const Params& p, const Tensors& t, void* workspace, cudaStream_t stream) {
        const UniqueSlicesParams params{
            .type = t.in[0].type,
            .sorted = p.sorted != 0,
            .x = t.in[0].data,
            .output = t.output(0),
            .first = static_cast<int64_t*>(t.output(1)),
            .inverse = static_cast<int64_t*>(t.output(2)),
            .counts = static_cast<int64_t*>(t.output(3)),
            .count = static_cast<int32_t*>(t.output(4)),
        };
        return uniqueSlices(params, slicesAlong(t.in[0].shape, p.axis), workspace, stream);
    }
};

TRTSMITH_BIND(UniqueSlices)

}  // namespace trtsmith
