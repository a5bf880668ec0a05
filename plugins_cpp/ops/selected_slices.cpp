// Slices at which a condition holds: a launch of the kernel in kernels/.
#include "definitions/selected_slices.hpp"

#include "kernels/selected_slices.cuh"
#include "ops/binding.hpp"
#include "ops/slice_axis.hpp"

namespace trtsmith {

struct SelectedSlices : SelectedSlicesDefinition {
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
