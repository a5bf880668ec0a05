// Inverse of square matrices: ports, shapes and sizes; the arithmetic is in kernels/.
#include "kernels/matrix_inverse.cuh"

#include "ops/binding.hpp"

namespace trtsmith {

struct MatrixInverse {
    static constexpr const char* kName = "MatrixInverse";
    static constexpr const char* kVersion = "1";

    struct Params {};
    static constexpr std::array<Field<Params>, 0> kFields{};
    static constexpr Signature<1, 1> kSignature{
        {{{"x", TypeVar::kT, kAnyRank}}},
        {{{"output", TypeVar::kT, kAnyRank}}},
    };

    template <typename D>
    static void shape(const Params&, const Shape<D>* in, int32_t, Shape<D>* out) {
        out[0] = in[0];
    }

    static std::string check(const Params&, const Tensors& t) {
        const Shape<int64_t>& x = t.in[0].shape;
        if (x.rank < 2 || x[x.rank - 1] != x[x.rank - 2]) {
            return "x must hold square matrices in its last two dimensions";
        }
        return {};
    }

    static size_t workspace(const Params&, const Tensors& t) {
        return t.in[0].shape.rank < 2 ? 0 : matrixInverseWorkspace(sizes(t.in[0].shape));
    }

    static cudaError_t run(const Params&, const Tensors& t, void* workspace, cudaStream_t stream) {
        const MatrixInverseParams params{.type = t.in[0].type, .input = t.in[0].data, .output = t.output(0)};
        return matrixInverse(params, sizes(t.in[0].shape), workspace, stream);
    }

private:
    static MatrixInverseShape sizes(const Shape<int64_t>& x) {
        int64_t batch = 1;
        for (int32_t axis = 0; axis < x.rank - 2; ++axis) {
            batch *= x[axis];
        }
        return {.batch = batch, .size = x[x.rank - 1]};
    }
};

TRTSMITH_BIND(MatrixInverse)

}  // namespace trtsmith
