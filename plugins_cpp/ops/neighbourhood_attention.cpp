// Attention of places to their neighbours: a launch of the kernel in kernels/.
#include "kernels/neighbourhood_attention.cuh"

#include <cmath>

#include "definitions/neighbourhood_attention.hpp"
#include "ops/binding.hpp"

namespace trtsmith {

struct NeighbourhoodAttention : NeighbourhoodAttentionDefinition {
    static cudaError_t run(const Params& p, const Tensors& t, void*, cudaStream_t stream) {
        const Tensor& q = t.in[kQ];
        const NeighbourhoodAttentionParams params{
            .type = q.type,
            .q = q.data,
            .k = t.in[kK].data,
            .v = t.in[kV].data,
            .output = t.output(0),
            .scale = p.scale != 0.0F ? p.scale : 1.0F / std::sqrt(static_cast<float>(q[5])),
        };
        NeighbourhoodAttentionShape shape{.batch = q[0], .axes = {}, .heads = q[4], .width = q[5]};
        for (int i = 0; i < 3; ++i) {
            shape.axes[i] = {q[1 + i], p.kernel_size[i], p.stride[i], p.dilation[i], p.is_causal[i] != 0};
        }
        return neighbourhoodAttention(params, shape, stream);
    }
};

TRTSMITH_BIND(NeighbourhoodAttention)

}  // namespace trtsmith
