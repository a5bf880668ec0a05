// Positions at which a tensor is not zero: a launch of the kernel in kernels/.
#include "definitions/non_zero_positions.hpp"

#include "kernels/non_zero.cuh"
#include "ops/binding.hpp"

namespace trtsmith {

struct NonZeroPositions : NonZeroPositionsDefinition {
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
