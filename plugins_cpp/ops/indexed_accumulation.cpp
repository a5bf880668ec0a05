// Rows reduced into rows of data by index: a launch of the kernel in kernels/.
#include "definitions/indexed_accumulation.hpp"

#include "kernels/reduction/indexed_reduction.cuh"
#include "ops/binding.hpp"
#include "ops/rows.hpp"

namespace trtsmith {

struct IndexedAccumulation : IndexedAccumulationDefinition {
    static size_t workspace(const Params&, const Tensors& t) { return indexedReductionWorkspace(kernelShape(t)); }

    static cudaError_t run(const Params& p, const Tensors& t, void* workspace, cudaStream_t stream) {
        const IndexedReductionParams params{
            .type = t.in[kData].type,
            .indexType = t.in[kIndex].type,
            .reduction = static_cast<Reduction>(p.reduction),
            .source = t.in[kSource].data,
            .index = t.in[kIndex].data,
            .output = t.output(0),
            .origin = nullptr,
            .count = nullptr,
            .data = t.in[kData].data,
        };
        return indexedReduction(params, kernelShape(t), workspace, stream);
    }

private:
    static IndexedReductionShape kernelShape(const Tensors& t) {
        return {t.in[kSource][0], columnsOf(t.in[kData].shape), t.in[kData][0]};
    }
};

TRTSMITH_BIND(IndexedAccumulation)

}  // namespace trtsmith
