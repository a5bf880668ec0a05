// The different slices of a tensor: a launch of the kernel in kernels/.
#include "definitions/unique_slices.hpp"

#include "kernels/unique_slices.cuh"
#include "ops/binding.hpp"
#include "ops/slice_axis.hpp"

namespace trtsmith {

struct UniqueSlices : UniqueSlicesDefinition {
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
