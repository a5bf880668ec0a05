// Where a tensor is not zero: ports, shapes and sizes; the arithmetic is in kernels/.
#include "kernels/non_zero.cuh"

#include "ops/binding.hpp"

namespace trtsmith {

struct NonZeroPositions {
    static constexpr char const* kName = "NonZeroPositions";
    static constexpr char const* kVersion = "1";

    struct Params {};
    static constexpr std::array<Field<Params>, 0> kFields{};
    static constexpr Signature<1, 2> kSignature{
        {{{"x", TypeVar::kV, kAnyRank}}},
        {{{"positions", TypeVar::kN, 2}, {"count", TypeVar::kS, 0, false, true}}},
    };

    template <class D>
    static void sizes(Params const&, Shape<D> const* in, int32_t, SizeBounds<D>* sizes)
    {
        require(in[0].rank >= 1, "x has no dimensions");
        D const most = product(in[0]);
        sizes[0] = {floorDiv(most + 1, 2), most};
    }

    template <class D>
    static void shape(Params const&, Shape<D> const* in, int32_t, D const* sizes, Shape<D>* out)
    {
        out[0] = Shape<D>::of(constantLike(sizes[0], in[0].rank), sizes[0]);
        out[1] = Shape<D>{};
    }

    static std::string check(Params const&, Tensors const& t)
    {
        return t.in[0].shape.rank < 1 ? "x has no dimensions" : "";
    }

    static size_t workspace(Params const&, Tensors const& t) { return nonZeroWorkspace(kernelShape(t.in[0].shape)); }

    static cudaError_t run(Params const&, Tensors const& t, void* workspace, cudaStream_t stream)
    {
        NonZeroParams const params{
            .type = t.in[0].type,
            .x = t.in[0].data,
            .positions = static_cast<int64_t*>(t.output(0)),
            .count = static_cast<int32_t*>(t.output(1)),
        };
        return nonZero(params, kernelShape(t.in[0].shape), workspace, stream);
    }

private:
    static NonZeroShape kernelShape(Shape<int64_t> const& x)
    {
        NonZeroShape shape{.rank = x.rank, .sizes = {}};
        for (int32_t axis = 0; axis < x.rank; ++axis) {
            shape.sizes[axis] = x[axis];
        }
        return shape;
    }
};

TRTSMITH_BIND(NonZeroPositions)

}  // namespace trtsmith
