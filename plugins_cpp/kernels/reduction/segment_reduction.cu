#include "kernels/reduction/segment_reduction.cuh"

#include "kernels/reduction/segment_rows.cuh"

namespace trtsmith {

cudaError_t segmentReduction(const SegmentReductionParams& params, const SegmentReductionShape& shape,
                             cudaStream_t stream) {
    int64_t elements = 0;
    int64_t outputs = 0;
    const bool wide = params.offsetType == DType::kInt64;
    if (!elementCount({shape.rows, shape.columns}, elements) ||
        !elementCount({shape.segments, shape.columns}, outputs) || shape.rows > INT32_MAX ||
        (!wide && params.offsetType != DType::kInt32)) {
        return cudaErrorInvalidValue;
    }
    if (outputs > 0 &&
        (params.output == nullptr || params.offsets == nullptr || (elements > 0 && params.source == nullptr))) {
        return cudaErrorInvalidValue;
    }
    const segment_rows::Offsets where{params.offsets, wide, shape.rows};
    const int64_t segments = outputs > 0 ? shape.segments : 0;
    const segment_rows::Arguments a{params.source, params.output, nullptr, nullptr,         shape.rows,
                                    shape.columns, segments,      0,       params.reduction};
    return segment_rows::reduceRows<false>(params.type, a, where, stream);
}

}  // namespace trtsmith
