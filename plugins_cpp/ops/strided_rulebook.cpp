// The rulebook of a sparse convolution with strides: a launch of the kernel in kernels/.
#include "definitions/strided_rulebook.hpp"

#include <limits>

#include "kernels/sparse/strided_rulebook.cuh"
#include "ops/binding.hpp"
#include "ops/rulebook.hpp"

namespace trtsmith {

struct StridedRulebook : StridedRulebookDefinition {
    static size_t workspace(const Params& p, const Tensors& t) { return stridedRulebookWorkspace(kernelShape(p, t)); }

    static cudaError_t run(const Params& p, const Tensors& t, void* workspace, cudaStream_t stream) {
        const StridedRulebookParams params{
            .indices = static_cast<const int32_t*>(t.in[0].data),
            .outputIndices = static_cast<int32_t*>(t.output(0)),
            .pairs = static_cast<int32_t*>(t.output(1)),
            .count = static_cast<int32_t*>(t.output(2)),
        };
        return stridedRulebook(params, kernelShape(p, t), workspace, stream);
    }

private:
    static std::array<int64_t, 3> outputGrid(const Params& p) {
        std::array<int64_t, 3> cells{};
        for (size_t axis = 0; axis < 3; ++axis) {
            const int64_t extent = p.dilation[axis] * (int64_t{p.kernel_size[axis]} - 1) + 1;
            const int64_t steps =
                floorDiv(p.spatial_shape[axis] + 2 * int64_t{p.padding[axis]} - extent, p.stride[axis]);
            cells[axis] = steps < 0 ? 0 : steps + 1;
        }
        return cells;
    }

    static StridedRulebookShape kernelShape(const Params& p, const Tensors& t) {
        return {
            .rows = t.in[0][0],
            .batch = p.batch_size,
            .grid = wide(p.spatial_shape),
            .out = outputGrid(p),
            .kernel = wide(p.kernel_size),
            .stride = wide(p.stride),
            .padding = wide(p.padding),
            .dilation = wide(p.dilation),
            .limit = p.limit > 0 ? p.limit : std::numeric_limits<int32_t>::max(),
        };
    }
};

TRTSMITH_BIND(StridedRulebook)

}  // namespace trtsmith
