#include "kernels/selection/rotated_box_selection.cuh"

#include "kernels/convert.cuh"
#include "kernels/order_key.cuh"
#include "kernels/selection/box_suppression.cuh"
#include "kernels/selection/rotated_overlap.cuh"

namespace trtsmith {
namespace {

using namespace box_suppression_detail;
using rotated_overlap_detail::RotatedBox;

struct RotatedBoxes {
    using Box = RotatedBox;
    static constexpr int64_t kMostStripe = 1024;
    static constexpr int64_t kKeptChunk = 64;  // a comparison takes some hundred instructions

    RotatedBoxSelectionParams params;
    RotatedBox* prepared;  // [batch, boxes]

    __device__ Box box(int64_t index) const { return prepared[index]; }
    __device__ float limit() const { return params.overlap; }
    // Boxes that have nothing in common overlap at no limit.
    __device__ bool overlaps(const Box& better, const Box& later, float limit) const {
        const float share = rotated_overlap_detail::rotatedShare(better, later);
        return share > 0.0F && share > limit;
    }
    __device__ bool isCandidate(int64_t at) const { return scoreAt(at) > params.floor; }
    __device__ uint32_t orderOf(int64_t at) const {
        return static_cast<uint32_t>(orderKey(params.type, params.scores, at));
    }
    __device__ int64_t wanted() const { return INT64_MAX; }

private:
    __device__ float scoreAt(int64_t at) const {
        switch (params.type) {
            case DType::kFloat16:
                return toFloat(static_cast<const __half*>(params.scores)[at]);
            case DType::kBFloat16:
                return toFloat(static_cast<const __nv_bfloat16*>(params.scores)[at]);
            default:
                return static_cast<const float*>(params.scores)[at];
        }
    }
};

template <typename T>
__global__ void __launch_bounds__(kThreads) prepareKernel(RotatedBoxes boxes, int64_t n) {
    const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
    const float turn = boxes.params.clockwise ? 1.0F : -1.0F;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < n; i += stride) {
        boxes.prepared[i] = rotated_overlap_detail::loadRotatedBox<T>(boxes.params.boxes, i, turn);
    }
}

// Lays the workspace out: the boxes are behind what every selection needs.
bool layOutRotated(const BoxSelectionShape& shape, void* workspace, Selection<RotatedBoxes>& s, size_t& size) {
    int64_t numbers = 0;
    if (!elementCount({shape.batch, shape.boxes, 5}, numbers) || !layOut(shape, workspace, s, size)) {
        return false;
    }
    if (size > 0) {
        size = (size + alignof(RotatedBox) - 1) / alignof(RotatedBox) * alignof(RotatedBox);
        if (workspace != nullptr) {
            s.boxes.prepared = reinterpret_cast<RotatedBox*>(static_cast<char*>(workspace) + size);
        }
        size += static_cast<size_t>(numbers / 5) * sizeof(RotatedBox);
    }
    return true;
}

}  // namespace

size_t rotatedBoxSelectionWorkspace(const BoxSelectionShape& shape) {
    Selection<RotatedBoxes> s{};
    size_t size = 0;
    return layOutRotated(shape, nullptr, s, size) ? size : 0;
}

cudaError_t rotatedBoxSelection(const RotatedBoxSelectionParams& params, const BoxSelectionShape& shape,
                                void* workspace, cudaStream_t stream) {
    Selection<RotatedBoxes> s{};
    size_t size = 0;
    if (!layOutRotated(shape, workspace, s, size) || params.count == nullptr) {
        return cudaErrorInvalidValue;
    }
    if (size == 0) {
        return sumBefore(nullptr, 0, params.count, stream);  // no box: the count is 0
    }
    if (workspace == nullptr || params.boxes == nullptr || params.scores == nullptr || params.selected == nullptr) {
        return cudaErrorInvalidValue;
    }
    s.boxes.params = params;
    const int64_t boxes = shape.batch * shape.boxes;
    const cudaError_t status = withFloatType(params.type, [&s, boxes, stream](auto tag) {
        using T = typename decltype(tag)::type;
        return launch(prepareKernel<T>, gridBlocks(ceilDivide(boxes, kThreads)), kThreads, 0, stream, s.boxes, boxes);
    });
    return status == cudaSuccess ? selectBoxes(s, params.selected, params.count, stream) : status;
}

}  // namespace trtsmith
