#include "kernels/reduction/ascending_order.cuh"

#include "kernels/dispatch.cuh"
#include "kernels/merge_sort.cuh"
#include "kernels/order_key.cuh"

namespace trtsmith {
namespace {

constexpr int kThreads = 256;

struct alignas(16) Element {
    uint64_t key;
    int64_t position;
};

struct ElementLess {
    __device__ bool operator()(const Element& a, const Element& b) const { return a.key < b.key; }
};

__global__ void __launch_bounds__(kThreads) keyKernel(AscendingOrderParams params, int64_t size, Element* elements) {
    const int64_t step = int64_t{gridDim.x} * kThreads;
    for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < size; i += step) {
        elements[i] = {orderKey(params.type, params.x, i), i};
    }
}

__global__ void __launch_bounds__(kThreads) writeKernel(const Element* elements, int64_t size, int64_t* order) {
    const int64_t step = int64_t{gridDim.x} * kThreads;
    for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < size; i += step) {
        order[i] = elements[i].position;
    }
}

}  // namespace

size_t ascendingOrderWorkspace(int64_t size) {
    return size > 0 && size <= kMaxElements ? 2 * static_cast<size_t>(size) * sizeof(Element) : 0;
}

cudaError_t ascendingOrder(const AscendingOrderParams& params, int64_t size, void* workspace, cudaStream_t stream) {
    if (size < 0 || size > kMaxElements || params.type == DType::kBool ||
        (size > 0 && (params.x == nullptr || params.order == nullptr || workspace == nullptr))) {
        return cudaErrorInvalidValue;
    }
    if (size == 0) {
        return cudaSuccess;
    }
    auto* const elements = static_cast<Element*>(workspace);
    Element* sorted = nullptr;
    const unsigned int blocks = gridBlocks(ceilDivide(size, kThreads));
    cudaError_t status = launch(keyKernel, blocks, kThreads, 0, stream, params, size, elements);
    if (status == cudaSuccess) {
        status = mergeSort(elements, elements + size, size, ElementLess{}, sorted, stream);
    }
    return status == cudaSuccess ? launch(writeKernel, blocks, kThreads, 0, stream, sorted, size, params.order)
                                 : status;
}

}  // namespace trtsmith
