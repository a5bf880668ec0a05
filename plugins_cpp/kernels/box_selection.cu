#include "box_selection.cuh"

#include "box_selection_overlap.cuh"
#include "kernels/selection/box_suppression.cuh"
#include "order_key.cuh"

namespace trtsmith {
namespace {

using namespace box_suppression_detail;

// Boxes whose sides are along the axes.
struct UprightBoxes {
    using Box = box_selection_detail::Box;
    static constexpr int64_t kMostStripe = 16384;
    static constexpr int64_t kKeptChunk = 512;

    BoxSelectionParams params;

    __device__ Box box(int64_t index) const { return box_selection_detail::boxAt(params.boxes, index, params.centers); }
    __device__ float limit() const { return *params.overlap; }
    __device__ bool overlaps(const Box& better, const Box& later, float limit) const {
        return box_selection_detail::overlaps(better, later, limit);
    }
    __device__ bool isCandidate(int64_t at) const {
        const float score = params.scores[at];
        return params.floor != nullptr ? score > *params.floor : score == score;
    }
    __device__ uint32_t orderOf(int64_t at) const {
        return static_cast<uint32_t>(orderKey(DType::kFloat32, params.scores, at));
    }
    __device__ int64_t wanted() const { return *params.maxBoxes; }
};

}  // namespace

size_t boxSelectionWorkspace(const BoxSelectionShape& shape) {
    Selection<UprightBoxes> s{};
    size_t size = 0;
    return layOut(shape, nullptr, s, size) ? size : 0;
}

cudaError_t boxSelection(const BoxSelectionParams& params, const BoxSelectionShape& shape, void* workspace,
                         cudaStream_t stream) {
    Selection<UprightBoxes> s{};
    size_t size = 0;
    if (!layOut(shape, workspace, s, size) || params.count == nullptr) {
        return cudaErrorInvalidValue;
    }
    if (size == 0) {
        return sumBefore(nullptr, 0, params.count, stream);  // no box: the count is 0
    }
    if (workspace == nullptr || params.boxes == nullptr || params.scores == nullptr || params.maxBoxes == nullptr ||
        params.overlap == nullptr || params.selected == nullptr) {
        return cudaErrorInvalidValue;
    }
    s.boxes.params = params;
    return selectBoxes(s, params.selected, params.count, stream);
}

}  // namespace trtsmith
