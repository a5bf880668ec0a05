// Inverse of square matrices: a launch of the kernel in kernels/.
#include "definitions/matrix_inverse.hpp"

#include "kernels/matrix_inverse.cuh"
#include "ops/binding.hpp"

namespace trtsmith {

struct MatrixInverse : MatrixInverseDefinition {
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
