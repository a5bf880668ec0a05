// Rows of consecutive segments reduced: a launch of the kernel in kernels/.
#include "definitions/segment_reduction.hpp"

#include "kernels/reduction/segment_reduction.cuh"
#include "ops/binding.hpp"
#include "ops/rows.hpp"

namespace trtsmith {

struct SegmentReduction : SegmentReductionDefinition {
    static size_t workspace(const Params&, const Tensors& t) { return segmentReductionWorkspace(kernelShape(t)); }

    static cudaError_t run(const Params& p, const Tensors& t, void* workspace, cudaStream_t stream) {
        const Tensor& source = t.in[kSource];
        const SegmentReductionParams params{
            .type = source.type,
            .offsetType = t.in[kOffsets].type,
            .reduction = static_cast<Reduction>(p.reduction),
            .source = source.data,
            .offsets = t.in[kOffsets].data,
            .output = t.output(0),
        };
        return segmentReduction(params, kernelShape(t), workspace, stream);
    }

private:
    static SegmentReductionShape kernelShape(const Tensors& t) {
        const Tensor& source = t.in[kSource];
        return {source[0], columnsOf(source.shape), t.in[kOffsets][0] - 1};
    }
};

TRTSMITH_BIND(SegmentReduction)

}  // namespace trtsmith
