// Rows reduced to one for each index, of which there are so many: a launch of the kernel in kernels/.
#include "definitions/indexed_reduction.hpp"

#include "kernels/reduction/indexed_reduction.cuh"
#include "ops/binding.hpp"
#include "ops/rows.hpp"

namespace trtsmith {

struct IndexedReduction : IndexedReductionDefinition {
    static size_t workspace(const Params& p, const Tensors& t) {
        return indexedReductionWorkspace({t.in[0][0], columnsOf(t.in[0].shape), p.segments});
    }

    static cudaError_t run(const Params& p, const Tensors& t, void* workspace, cudaStream_t stream) {
        const IndexedReductionShape shape{t.in[0][0], columnsOf(t.in[0].shape), p.segments};
        return indexedReduction(scatterParams(p.reduction, t, nullptr), shape, workspace, stream);
    }
};

TRTSMITH_BIND(IndexedReduction)

}  // namespace trtsmith
