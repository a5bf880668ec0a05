#include "kernels/selection/top_elements.cuh"

#include "kernels/merge_sort.cuh"
#include "kernels/selection/top_elements_select.cuh"
#include "kernels/selection/top_elements_sort.cuh"
#include "kernels/selection/top_elements_state.cuh"

namespace trtsmith {
namespace {

using namespace top_elements_detail;

constexpr int kThreads = 256;

struct ByRowAndKey {
    __device__ bool operator()(const Element& a, const Element& b) const {
        return a.row != b.row ? a.row < b.row : a.key < b.key;
    }
};

// The elements of all rows, in the order of their places: n of each.
__global__ void __launch_bounds__(kThreads) elementsKernel(Plan plan, int64_t n) {
    const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < plan.rows * n; i += stride) {
        const int64_t row = i / n;
        const int64_t at = i - row * n;
        const uint64_t key = plan.selects ? plan.keys[i] : plan.keyAt(plan.firstOf(row), at);
        const uint32_t place = plan.selects ? plan.places[i] : static_cast<uint32_t>(at);
        plan.elements[i] = {key, static_cast<uint32_t>(row), place};
    }
}

__global__ void __launch_bounds__(kThreads) writeKernel(Plan plan, const Element* sorted, int64_t n) {
    const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
    const int64_t count = plan.shape.count;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < plan.rows * count; i += stride) {
        const int64_t row = i / count;
        const int64_t rank = i - row * count;
        plan.write(row, rank, sorted[row * n + rank].place);
    }
}

cudaError_t sortByMerging(const Plan& plan, cudaStream_t stream) {
    const int64_t n = plan.selects ? plan.shape.count : plan.shape.size;
    const int64_t all = plan.rows * n;
    cudaError_t status = launch(elementsKernel, gridBlocks(ceilDivide(all, kThreads)), kThreads, 0, stream, plan, n);
    Element* sorted = nullptr;
    if (status == cudaSuccess) {
        status = mergeSort(plan.elements, plan.spare, all, ByRowAndKey{}, sorted, stream);
    }
    if (status == cudaSuccess) {
        const unsigned int blocks = gridBlocks(ceilDivide(plan.rows * plan.shape.count, kThreads));
        status = launch(writeKernel, blocks, kThreads, 0, stream, plan, sorted, n);
    }
    return status;
}

cudaError_t sortInBlocks(const Plan& plan, cudaStream_t stream) {
    const int64_t n = plan.selects ? plan.shape.count : plan.shape.size;
    switch (ceilDivide(n, kSortThreads)) {
        case 5:
            return sortRows<5>(plan, plan.selects, stream);
        case 6:
            return sortRows<6>(plan, plan.selects, stream);
        case 7:
        case 8:
            return sortRows<8>(plan, plan.selects, stream);
        case 9:
        case 10:
            return sortRows<10>(plan, plan.selects, stream);
        case 11:
        case 12:
            return sortRows<12>(plan, plan.selects, stream);
        default:
            return sortRows<4>(plan, plan.selects, stream);
    }
}

}  // namespace

size_t topElementsWorkspace(DType type, const TopElementsShape& shape) {
    Plan plan{};
    size_t size = 0;
    return layOut(type, shape, nullptr, plan, size) ? size : 0;
}

cudaError_t topElements(const TopElementsParams& params, const TopElementsShape& shape, void* workspace,
                        cudaStream_t stream) {
    Plan plan{};
    size_t size = 0;
    if (!layOut(params.type, shape, workspace, plan, size)) {
        return cudaErrorInvalidValue;
    }
    if (size == 0) {
        return cudaSuccess;  // no element is wanted
    }
    if (workspace == nullptr || params.x == nullptr || params.values == nullptr || params.indices == nullptr) {
        return cudaErrorInvalidValue;
    }
    plan.params = params;
    bool can = false;
    cudaError_t status = canSort(can);
    plan.selects = plan.selectable && (!can || shape.size > kSortable);
    if (status == cudaSuccess && plan.selects) {
        status = selectWanted(plan, stream);
    }
    if (status != cudaSuccess) {
        return status;
    }
    const bool narrow = keyBits(params.type) < 64;
    return can && narrow && (plan.selects || shape.size <= kSortable) ? sortInBlocks(plan, stream)
                                                                      : sortByMerging(plan, stream);
}

}  // namespace trtsmith
