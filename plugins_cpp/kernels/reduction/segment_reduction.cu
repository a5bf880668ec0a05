#include "kernels/reduction/segment_reduction.cuh"

#include "kernels/reduction/segment_rows.cuh"

namespace trtsmith {
namespace {

constexpr int32_t kThreads = 256;
constexpr int64_t kEnoughWarps = 4096;
constexpr int64_t kLeastRows = 32;  // of a part
constexpr int64_t kColumns = 128;   // of a warp, at least

// Parts of each segment: more than one where segments are few, and long on average. Follows from the shape alone, as the
// order in which sums are added must.
int32_t partsOf(const SegmentReductionShape& shape) {
    const int64_t segments = shape.segments > 0 ? shape.segments : 1;
    const int64_t warps = segments * ceilDivide(shape.columns > 0 ? shape.columns : 1, kColumns);
    const int64_t byWarps = ceilDivide(kEnoughWarps, warps);
    const int64_t byRows = shape.rows / segments / kLeastRows;
    const int64_t parts = byWarps < byRows ? byWarps : byRows;
    return parts < 2 ? 1 : static_cast<int32_t>(parts);
}

struct Combination {
    const float* partial;  // [segments, parts, columns]
    void* output;          // T [segments, columns]
    int64_t segments;
    int64_t columns;
    Reduction reduction;
};

template <typename T>
__global__ void __launch_bounds__(kThreads)
    combineKernel(const __grid_constant__ Combination c, const __grid_constant__ segment_rows::Parts where) {
    T* const output = static_cast<T*>(c.output);
    const int64_t step = int64_t{gridDim.x} * kThreads;
    for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < c.segments * c.columns; i += step) {
        const int64_t segment = i / c.columns;
        const float* const own = c.partial + segment * where.parts * c.columns + (i - segment * c.columns);
        const int32_t count = where.whole.count(segment);
        const int64_t length = where.length(count);
        const int64_t parts = count > 0 ? (count + length - 1) / length : 0;  // that have rows
        float value = parts > 0 ? own[0] : 0.0F;
#pragma unroll 8
        for (int64_t part = 1; part < parts; ++part) {
            const float next = own[part * c.columns];
            if (c.reduction == Reduction::kMax) {
                value = next > value ? next : value;
            } else if (c.reduction == Reduction::kMin) {
                value = next < value ? next : value;
            } else {
                value += next;
            }
        }
        const bool mean = c.reduction == Reduction::kMean && count > 0;
        output[i] = fromFloat<T>(mean ? value / static_cast<float>(count) : value);
    }
}

}  // namespace

// Enough for every smaller shape, too: TensorRT asks once, with the largest, and fewer segments have more parts. Parts that are
// more than one have kLeastRows rows each, and less than twice the warps that are enough.
size_t segmentReductionWorkspace(const SegmentReductionShape& shape) {
    int64_t elements = 0;
    if (shape.rows < 0 || shape.segments < 0 || !elementCount({shape.rows, shape.columns}, elements)) {
        return 0;
    }
    constexpr int64_t kMost = 2 * kEnoughWarps * kColumns;
    const int64_t byRows = shape.rows / kLeastRows * shape.columns;
    return static_cast<size_t>(byRows < kMost ? byRows : kMost) * sizeof(float);
}

cudaError_t segmentReduction(const SegmentReductionParams& params, const SegmentReductionShape& shape, void* workspace,
                             cudaStream_t stream) {
    int64_t elements = 0;
    int64_t outputs = 0;
    const bool wide = params.offsetType == DType::kInt64;
    if (!elementCount({shape.rows, shape.columns}, elements) ||
        !elementCount({shape.segments, shape.columns}, outputs) || shape.rows > INT32_MAX ||
        (!wide && params.offsetType != DType::kInt32)) {
        return cudaErrorInvalidValue;
    }
    const int32_t parts = outputs > 0 ? partsOf(shape) : 1;
    if (outputs > 0 && (params.output == nullptr || params.offsets == nullptr ||
                        (elements > 0 && params.source == nullptr) || (parts > 1 && workspace == nullptr))) {
        return cudaErrorInvalidValue;
    }
    const segment_rows::Offsets whole{params.offsets, wide, shape.rows};
    segment_rows::Arguments a{};
    a.source = params.source;
    a.output = params.output;
    a.rows = shape.rows;
    a.columns = shape.columns;
    a.segments = outputs > 0 ? shape.segments : 0;
    a.reduction = params.reduction;
    if (parts == 1) {
        return segment_rows::reduceRows<false, false>(params.type, a, whole, stream);
    }
    a.output = workspace;
    a.segments = shape.segments * parts;
    a.reduction = params.reduction == Reduction::kMean ? Reduction::kSum : params.reduction;
    const segment_rows::Parts where{whole, parts};
    const cudaError_t status = segment_rows::reduceRows<false, true>(params.type, a, where, stream);
    if (status != cudaSuccess) {
        return status;
    }
    const Combination c{static_cast<const float*>(workspace), params.output, shape.segments, shape.columns,
                        params.reduction};
    return withFloatType(params.type, [&](auto tag) -> cudaError_t {
        const unsigned int blocks = gridBlocks(ceilDivide(outputs, kThreads));
        return launch(combineKernel<typename decltype(tag)::type>, blocks, kThreads, 0, stream, c, where);
    });
}

}  // namespace trtsmith
