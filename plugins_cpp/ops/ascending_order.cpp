// The order in which elements ascend: a launch of the kernel in kernels/.
#include "definitions/ascending_order.hpp"

#include "kernels/reduction/ascending_order.cuh"
#include "ops/binding.hpp"

namespace trtsmith {

struct AscendingOrder : AscendingOrderDefinition {
    static size_t workspace(const Params&, const Tensors& t) { return ascendingOrderWorkspace(t.in[0][0]); }

    static cudaError_t run(const Params&, const Tensors& t, void* workspace, cudaStream_t stream) {
        const AscendingOrderParams params{t.in[0].type, t.in[0].data, static_cast<int64_t*>(t.output(0))};
        return ascendingOrder(params, t.in[0][0], workspace, stream);
    }
};

TRTSMITH_BIND(AscendingOrder)

}  // namespace trtsmith
