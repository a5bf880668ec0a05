// The largest or smallest elements along an axis: a launch of the kernel in kernels/.
#include "definitions/top_elements.hpp"

#include "kernels/selection/top_elements.cuh"
#include "ops/binding.hpp"
#include "ops/slice_axis.hpp"

namespace trtsmith {

struct TopElements : TopElementsDefinition {
    static size_t workspace(const Params& p, const Tensors& t) {
        return topElementsWorkspace(t.in[0].type, kernelShape(p, t));
    }

    static cudaError_t run(const Params& p, const Tensors& t, void* workspace, cudaStream_t stream) {
        const TopElementsParams params{
            .type = t.in[0].type,
            .largest = p.largest != 0,
            .x = t.in[0].data,
            .values = t.output(0),
            .indices = static_cast<int64_t*>(t.output(1)),
        };
        return topElements(params, kernelShape(p, t), workspace, stream);
    }

private:
    static TopElementsShape kernelShape(const Params& p, const Tensors& t) {
        const GatherSlicesShape slices = slicesAlong(t.in[0].shape, p.axis);
        return {.outer = slices.outer, .size = slices.size, .inner = slices.inner, .count = p.k};
    }
};

TRTSMITH_BIND(TopElements)

}  // namespace trtsmith
