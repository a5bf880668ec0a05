#include "kernels/reduction/indexed_reduction.cuh"

#include "kernels/reduction/scatter_lists.cuh"
#include "kernels/reduction/segment_rows.cuh"

namespace trtsmith {
namespace {

bool isValid(const IndexedReductionParams& p, const IndexedReductionShape& s, int64_t& outputs) {
    int64_t elements = 0;
    const bool sizes = elementCount({s.rows, s.columns}, elements) && elementCount({s.segments, s.columns}, outputs);
    if (!sizes || s.rows > INT32_MAX || s.segments > INT32_MAX ||
        (p.indexType != DType::kInt32 && p.indexType != DType::kInt64)) {
        return false;
    }
    const bool hasInputs = (s.rows == 0 || p.index != nullptr) && (elements == 0 || p.source != nullptr);
    return hasInputs && (outputs == 0 || (p.output != nullptr && (p.origin != nullptr || p.data != nullptr)));
}

}  // namespace

size_t indexedReductionWorkspace(const IndexedReductionShape& shape) {
    if (shape.rows < 0 || shape.segments < 0 || shape.rows > INT32_MAX || shape.segments > INT32_MAX) {
        return 0;
    }
    const int64_t numbers = 2 * shape.segments + 2 + 2 * shape.rows + shape.rows / 32 + 1;
    return static_cast<size_t>(numbers) * sizeof(int32_t);
}

cudaError_t indexedReduction(const IndexedReductionParams& params, const IndexedReductionShape& shape, void* workspace,
                             cudaStream_t stream) {
    int64_t outputs = 0;
    if (!isValid(params, shape, outputs) || workspace == nullptr) {
        return cudaErrorInvalidValue;
    }
    scatter_lists::State state{};
    state.index = params.index;
    state.wide = params.indexType == DType::kInt64;
    state.rows = shape.rows;
    state.segments = shape.segments;
    state.counts = static_cast<int32_t*>(workspace);
    state.used = state.counts + shape.segments;
    state.nbLong = state.used + 1;
    state.starts = state.nbLong + 1;
    state.places = state.starts + shape.segments;
    state.list = state.places + shape.rows;
    state.longOnes = state.list + shape.rows;
    state.count = params.count;
    const bool extreme = params.reduction == Reduction::kMax || params.reduction == Reduction::kMin;
    const cudaError_t status = scatter_lists::makeLists(state, !extreme, stream);
    if (status != cudaSuccess) {
        return status;
    }
    const segment_rows::Lists where{state.starts, state.counts, state.list};
    // Without columns there are still sums' numbers of rows to write.
    const int64_t segments = outputs > 0 || (!extreme && params.origin != nullptr) ? shape.segments : 0;
    const segment_rows::Arguments a{params.source,    params.output, params.origin, params.count,
                                    shape.rows,       shape.columns, segments,      0,
                                    params.reduction, params.data};
    return params.data != nullptr ? segment_rows::reduceRows<true, false, true>(params.type, a, where, stream)
                                  : segment_rows::reduceRows<true, false>(params.type, a, where, stream);
}

}  // namespace trtsmith
