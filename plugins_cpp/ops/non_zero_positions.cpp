// Positions at which a tensor is not zero: ports, shapes and sizes; the arithmetic is in kernels/.
#include "kernels/non_zero.cuh"
#include "ops/binding.hpp"

namespace trtsmith {

struct NonZeroPositions {
    static constexpr const char* kName = "NonZeroPositions";
    static constexpr const char* kVersion = "1";

    struct Params {};
    static constexpr std::array<Field<Params>, 0> kFields{};
    static constexpr Signature<1, 2> kSignature{
        {{{"x", TypeVar::kV, kAnyRank}}},
        {{{"positions", TypeVar::kN, 2}, {"count", TypeVar::kS, 0, false, true}}},
    };

    template <typename D>
    static void sizes(const Params&, const Shape<D>* in, int32_t, SizeBounds<D>* sizes) {
        require(in[0].rank >= 1, "x has no dimensions");
        const D most = product(in[0]);
        sizes[0] = {floorDiv(most + 1, 2), most};
    }

    template <typename D>
    static void shape(const Params&, const Shape<D>* in, int32_t, const D* sizes, Shape<D>* out) {
        out[0] = Shape<D>::of(constantLike(sizes[0], in[0].rank), sizes[0]);
        out[1] = Shape<D>{};
    }

    static std::string check(const Params&, const Tensors& t) {
        return t.in[0].shape.rank < 1 ? "x has no dimensions" : "";
    }

    static size_t workspace(const Params&, const Tensors& t) { return nonZeroWorkspace(kernelShape(t.in[0].shape)); }

    static cudaError_t run(const Params&, const Tensors& t, void* workspace, cudaStream_t stream) {
        const NonZeroParams params{
            .type = t.in[0].type,
            .x = t.in[0].data,
            .positions = static_cast<int64_t*>(t.output(0)),
            .count = static_cast<int32_t*>(t.output(1)),
        };
        return nonZero(params, kernelShape(t.in[0].shape), workspace, stream);
    }

private:
    static NonZeroShape kernelShape(const Shape<int64_t>& x) {
        NonZeroShape shape{.rank = x.rank, .sizes = {}};
        for (int32_t axis = 0; axis < x.rank; ++axis) {
            shape.sizes[axis] = x[axis];
        }
        return shape;
    }
};

TRTSMITH_BIND(NonZeroPositions)

}  // namespace trtsmith
