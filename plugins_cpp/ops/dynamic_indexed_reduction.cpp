// Rows reduced to one for each index, as many as there are: a launch of the kernel in kernels/.
#include "definitions/dynamic_indexed_reduction.hpp"

#include "kernels/reduction/indexed_reduction.cuh"
#include "ops/binding.hpp"
#include "ops/rows.hpp"

namespace trtsmith {

struct DynamicIndexedReduction : DynamicIndexedReductionDefinition {
    static size_t workspace(const Params&, const Tensors& t) { return indexedReductionWorkspace(kernelShape(t)); }

    static cudaError_t run(const Params& p, const Tensors& t, void* workspace, cudaStream_t stream) {
        auto* const count = static_cast<int32_t*>(t.output(2));
        return indexedReduction(scatterParams(p.reduction, t, count), kernelShape(t), workspace, stream);
    }

private:
    static IndexedReductionShape kernelShape(const Tensors& t) {
        return {t.in[0][0], columnsOf(t.in[0].shape), t.in[0][0]};
    }
};

TRTSMITH_BIND(DynamicIndexedReduction)

}  // namespace trtsmith
